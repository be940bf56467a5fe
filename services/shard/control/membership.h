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
// Frames may name any version, so what they name is believed once: when the coordinator's list turns out to
// be older, nothing newer is fetched before the next beat. Fetches keep kFetchEvery apart and never delay a
// beat.
class Membership {
 public:
  // Called once, from the membership's thread, when this start of the shard was superseded by a newer one or
  // may not join: the process should end.
  using Superseded = std::function<void(absl::Status)>;

  // Called once, from the membership's thread, when the cluster had every copy of every segment for the first
  // time since this start. Until then to stop another shard might lose what only that one holds.
  using Whole = std::function<void()>;

  // Adds to a beat what the shard itself does not know.
  using Describe = std::function<void(v1::BeatRequest&)>;

  static constexpr absl::Duration kFetchEvery = absl::Milliseconds(20);

  // `shard` must outlive this. `coordinators`: host:port, several with commas between.
  Membership(Shard& shard, const std::string& coordinators, v1::JoinClusterRequest join,
             Superseded superseded, Whole whole = nullptr, Describe describe = nullptr);
  // Asks the coordinator to move everything away from this shard, which then is a member of no segment whose
  // state lives elsewhere too: nobody waits for it when it ends. Returns when that is done, or at `timeout`
  // with what was done by then; an error if the coordinator does not answer. From any thread.
  absl::StatusOr<v1::HandOverShardReply> Leave(absl::Duration timeout);
  // Stops and joins the thread.
  ~Membership();

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

  // What streams ask for. Shared with the shard, which may be in the middle of asking when this ends.
  struct Wishes;
  const std::shared_ptr<Wishes> wishes_;
  absl::Time next_fetch_ = absl::InfinitePast();
  std::thread thread_;
};

}  // namespace paceline::shard
