#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/rpc/coordinators.h"
#include "services/shard/control/joining.h"
#include "services/shard/shard.h"

namespace paceline::shard {

// A shard's place in the cluster: joins it (joining.h), says every second that it lives and how it is, and
// fetches the list of tables when a frame names a newer one. Has one thread. Goes on trying while the
// coordinator is away: training does not need it.
//
// Frames may name any version, so the membership believes them once: if the coordinator's list turns out to
// be older, it fetches nothing newer before the next beat. Fetches keep kFetchEvery apart and never delay a
// beat.
class MembershipClient {
 public:
  // The membership's thread calls it once, when a newer start has superseded this one or this one may not
  // join: the process should end.
  using Superseded = std::function<void(absl::Status)>;

  // The membership's thread calls it once, when the cluster has every copy of every segment for the first
  // time since this start. To stop another shard before might lose data that only that one holds.
  using Whole = std::function<void()>;

  // Adds to a beat what the shard itself does not know.
  using Describe = std::function<void(v1::BeatRequest&)>;

  static constexpr absl::Duration kFetchEvery = absl::Milliseconds(20);

  // `shard` must outlive this. `coordinators`: host:port, several separated by commas.
  MembershipClient(Shard& shard, const std::string& coordinators, v1::JoinClusterRequest join,
                   Superseded superseded, Whole whole = nullptr, Describe describe = nullptr);
  // Asks the coordinator to move everything away from this shard. It then is a member of no segment whose
  // state lives elsewhere too, and nobody waits for it when it ends. Returns when that is done, or at
  // `timeout` with what was done by then; an error if the coordinator does not answer. Any thread may call
  // it.
  absl::StatusOr<v1::HandOverShardReply> Leave(absl::Duration timeout);
  // Stops and joins the thread.
  ~MembershipClient();

 private:
  static constexpr absl::Duration kCallTimeout = absl::Seconds(2);

  void Run();
  // One try at the coordinator whose turn it is.
  template <class Request, class Reply>
  absl::Status Ask(grpc::Status (v1::Coordinator::Stub::*method)(grpc::ClientContext*, const Request&,
                                                                 Reply*),
                   const Request& request, Reply& reply, absl::Duration timeout = kCallTimeout);
  // Goes on with joining as far as it gets without a pause.
  absl::Status Join();
  // Waits until the folder has the start's stamp, synced.
  absl::Status WriteStamps();
  absl::Status Beat();
  void FetchCatalogue();
  // Asks the coordinator once whether the cluster is whole, until it has been.
  void LookWhetherWhole();
  // Waits that long, and fetches the list of tables meanwhile when it is wanted. False: it is the end.
  bool Pause(absl::Duration duration);

  Shard& shard_;
  const std::string name_;
  Joining joining_;
  std::shared_ptr<Notification> stamped_;  // null: nothing is being written
  const Superseded superseded_;
  rpc::Coordinators coordinators_;
  Whole whole_;              // null: was called, or nobody wants to know
  const Describe describe_;  // null: there is nothing to add

  // The versions that streams ask for. The shard shares them: it may be in the middle of asking when this
  // ends.
  struct Wishes;
  const std::shared_ptr<Wishes> wishes_;
  absl::Time next_fetch_ = absl::InfinitePast();
  std::thread thread_;
};

}  // namespace paceline::shard
