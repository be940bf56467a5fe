#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/coordinator/store/store.h"

namespace paceline::coordinator {

struct EtcdOptions {
  std::vector<std::string> endpoints;  // HOST:PORT of etcd's members, at least one
  std::string prefix = "paceline";  // of every key, before a slash: clusters on one etcd have different ones
  // A call that takes longer has failed. After as many failures in a row as there are endpoints, calls fail
  // at once for `hold_off`: whoever waits for the caller of a blocked call waits no longer than
  // `call_timeout`.
  absl::Duration call_timeout = absl::Seconds(1);
  absl::Duration hold_off = absl::Seconds(1);
};

// kInvalidArgument: `url` is not etcd://HOST:PORT[,HOST:PORT…][/PREFIX].
absl::StatusOr<EtcdOptions> ParseEtcdUrl(absl::string_view url);

// A store in etcd, over its v3 gRPC interface, unencrypted. Any number of coordinators may have one on the
// same keys: what they may do at the same time is what their conditions let through. Does not connect before
// the first call, and connects again by itself.
//
// A version is etcd's mod_revision. Reads are linearizable: they need a majority of etcd's members, as
// commits do. etcd refuses what is larger than its --max-request-bytes (1.5 MiB by default), which a commit
// says as kInvalidArgument. History that etcd keeps is compacted by the way, about every thousand commits, so
// that its disk does not fill; without --auto-compaction-retention nothing else would.
std::unique_ptr<Store> MakeEtcdStore(EtcdOptions options);

}  // namespace paceline::coordinator
