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
  std::string prefix = "paceline";     // of every key, before a slash; unlike other clusters'
  // The time limit of a call. After as many failures in a row as there are endpoints, calls fail at once for
  // `hold_off`, so that callers behind a blocked call wait no longer than `call_timeout`.
  absl::Duration call_timeout = absl::Seconds(1);
  absl::Duration hold_off = absl::Seconds(1);
};

// kInvalidArgument: `url` is not etcd://HOST:PORT[,HOST:PORT…][/PREFIX].
absl::StatusOr<EtcdOptions> ParseEtcdUrl(absl::string_view url);

// A store in etcd, over its v3 gRPC interface, unencrypted. Any number of coordinators may open one on the
// same keys: the conditions of their commits decide between them. Connects with the first call, and
// reconnects by itself.
//
// A version is etcd's mod_revision. Reads are linearizable: like commits they need a majority of etcd's
// members. etcd refuses requests larger than its --max-request-bytes (1.5 MiB by default); Commit then
// returns kInvalidArgument. The store also compacts etcd's history, about every thousand commits: without
// --auto-compaction-retention nothing else would, and etcd's disk would fill.
std::unique_ptr<Store> MakeEtcdStore(EtcdOptions options);

}  // namespace paceline::coordinator
