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
#include "services/coordinator/metadata/context.h"

namespace paceline::coordinator {

// Whether a start may take the place of the one that is registered under its name. Somebody may have given
// two processes one name, or one folder's copy to another machine: the one that serves must not end for that.
// So the address of the earlier start is asked which start listens there.
//
// A start that is superseded is not over: its process may run, and answer its clients, until it hears of it.
// Only the lock of its own folder, in the hands of its successor, proves that it has ended.
class Superseding {
 public:
  explicit Superseding(Context& context) : context_(context) {}

  // OK; kAborted: the earlier start is being asked, ask again; kFailedPrecondition: it lives;
  // kUnavailable: it does not answer, and has not been `silent` for long enough to be taken for ended.
  absl::Status Check(const v1::JoinClusterRequest& request, const ShardRecord& known, absl::Duration silent);
  // The process of the earlier start has ended: its folder's lock is this one's.
  static bool ProvesEnd(const v1::JoinClusterRequest& request, const ShardRecord& known);

 private:
  struct Asked {
    uint64_t nonce = 0;  // of the start that was asked
    absl::Time at;
    bool answered = false;
    std::optional<uint64_t> listens;  // its nonce; nullopt: nobody said
  };

  void Ask(const ShardRecord& known);

  Context& context_;
  std::map<uint32_t, Asked> asked_;  // by shard
};

}  // namespace paceline::coordinator
