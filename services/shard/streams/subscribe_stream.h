#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "libs/log/subscriptions.h"
#include "libs/wire/frame.h"
#include "libs/world/port.h"
#include "services/shard/context.h"
#include "services/shard/streams/hello.h"
#include "services/shard/streams/reply_budget.h"
#include "services/shard/streams/served_stream.h"

namespace paceline::shard {

// One Subscribe stream: takes changes of sets apart and hands them to the primaries of their segments,
// gathers the updates that these build, and counts what the client has confirmed. Updates that are not
// confirmed take room, on the stream and of what all replies may take; while there is none, the segments
// build no others.
//
// It also carries what clients under a value bound say of segments, and the rounds of these.
class SubscribeStream : public ServedStream,
                        public log::UpdateSink,
                        public log::RoundSink,
                        public std::enable_shared_from_this<SubscribeStream> {
 public:
  // Bytes of updates that may be under way; one always fits.
  static constexpr uint64_t kUnconfirmedMax = uint64_t{4} << 20;

  explicit SubscribeStream(Context& context);

  bool TakesFrame() override;
  void OnFrame(absl::Cord bytes) override;
  bool NextFrame(absl::Cord* frame) override;
  void OnBroken(absl::Status why) override;

  // For the primaries.
  std::shared_ptr<const void> Reserve(uint64_t bytes) override;
  void Updated(log::SetUpdate update) override;
  void Ended(SegmentId segment, TableId table, v1::Refusal refusal) override;
  void Told(const wire::Round& round) override;
  bool gone() const override { return ended_.load(std::memory_order_relaxed); }

 private:
  using Request = wire::Frame<v1::SubscribeRequest>;
  using Update = wire::Frame<v1::SubscribeUpdate>;
  using Waiting = std::variant<v1::SubscribeUpdate, log::SetUpdate, wire::Round>;

  bool Unread(absl::Time now) const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void Greeted(Request request);
  void Confirmed(uint64_t number);
  void ChangeSets(Request request);
  void TakeReadings(const v1::SubscribeRequest& request);
  // The segment's set of the table is gone.
  void RefuseSet(v1::Refusal refusal, SegmentId segment, TableId table, uint64_t set);
  void Refuse(v1::Refusal refusal, TableId table = {});
  void Say(v1::SubscribeUpdate update);
  // Ends the stream.
  void Close(absl::Status why);
  // Lets the primaries tell what there is room for now, or forget this stream.
  void Visit(const std::set<SegmentId>& segments);
  void Wait(Waiting what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What can be said at once: one message, or updates of one table. REQUIRES: something waits.
  Update TakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t id_;  // at this shard: later streams have larger ones
  std::optional<Caller> caller_;
  uint64_t set_ = 0;  // the last change; of the thread that brings frames
  const std::shared_ptr<ReplyBudget> unconfirmed_ = std::make_shared<ReplyBudget>(kUnconfirmedMax);

  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;          // the carrier reads no frame until ReadOn
  std::set<SegmentId> segments_ ABSL_GUARDED_BY(mutex_);  // that may have sets of this stream
  // To be sent, in this order: a welcome, refusals, updates, rounds.
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  // Of what was sent and is not confirmed; from the first to the last update.
  struct Sent {
    uint64_t number = 0;
    std::vector<std::shared_ptr<const void>> rooms;
  };
  std::deque<Sent> sent_ ABSL_GUARDED_BY(mutex_);
  uint64_t number_ ABSL_GUARDED_BY(mutex_) = 0;  // of the last update
  bool wants_room_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time confirmed_at_ ABSL_GUARDED_BY(mutex_);  // or nothing was to be confirmed
  absl::Time read_at_ ABSL_GUARDED_BY(mutex_);       // the carrier took a frame, or nothing waited
};

}  // namespace paceline::shard
