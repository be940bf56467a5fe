#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "metadata/records.pb.h"
#include "paceline/v1/control.pb.h"
#include "paceline/v1/coordinator.pb.h"
#include "services/coordinator/metadata/facts/context.h"

namespace paceline::coordinator {

// Decides whether a start may replace the start registered under its name. Somebody may have given one name
// to two processes, or a copy of a folder to another machine: the one that serves must not end because of
// that. So the coordinator asks at the earlier start's address which start listens there.
//
// A superseded start has not necessarily ended: its process may run, and answer its clients, until it hears
// of it. Only the lock of its own folder, held by its successor, proves that it has ended.
class Superseding {
 public:
  explicit Superseding(Context& context) : context_(context) {}

  // OK: it may. kAborted: the earlier start is being asked; ask again. kFailedPrecondition: it lives.
  // kUnavailable: it does not answer, and has not been `silent` for long enough to count as ended.
  absl::Status Check(const v1::JoinClusterRequest& request, const ShardRecord& known, absl::Duration silent);
  // True if the earlier start's process has ended: its successor holds the folder's lock.
  static bool ProvesEnd(const v1::JoinClusterRequest& request, const ShardRecord& known);

 private:
  struct Asked {
    uint64_t nonce = 0;  // of the start that was asked
    absl::Time at;
    bool answered = false;
    std::optional<uint64_t> listens;  // its nonce; nullopt: no answer
  };

  void Ask(const ShardRecord& known);

  Context& context_;
  std::map<uint32_t, Asked> asked_;  // by shard
};

}  // namespace paceline::coordinator
