#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "libs/wire/packed.h"
#include "sdk/cpp/src/bound/unseen_updates.h"
#include "sdk/cpp/src/push/batch.h"
#include "sdk/cpp/src/push/push_link.h"
#include "sdk/cpp/src/push/segment_line.h"
#include "sdk/cpp/src/session/context.h"
#include "sdk/cpp/src/session/time_account.h"
#include "sdk/cpp/src/session/wait_reports.h"

namespace paceline::sdk {

using Done = absl::AnyInvocable<void(absl::Status)>;

// A push as the caller hands it over.
struct PushCall {
  std::shared_ptr<const TableInfo> table;
  std::shared_ptr<const Batch> batch;
  std::shared_ptr<PullOp> read = nullptr;  // of the same batch: its parts ride with this push's
  uint32_t priority = 0;                   // a lower number goes first
  absl::Duration timeout = absl::InfiniteDuration();
  Done done = nullptr;  // called once, after the visit
  // As its table's value bound counts it; null: there is no such bound, or it is yet to be weighed.
  std::shared_ptr<const WeighedPush> weighed = nullptr;
};

// A push under way.
struct PushOp {
  uint64_t id = 0;  // counts pushes
  std::shared_ptr<const TableInfo> table;
  size_t parts_left = 0;  // not committed
  absl::Time since;
  absl::Duration timeout;
  Done done;  // empty: already called
  Timers::Id timer;
};

// All updates: numbers parts, keeps them until they are committed, routes them to their primaries and sends
// them again where needed.
//
// A part gets its number when its push is made, or, if it may be overtaken, when it is sent first: until then
// a push of a lower priority number goes ahead of it. A tick gives numbers to all that have none, because
// nothing can overtake them any more. So the numbers of a line follow its clocks. A pull that is made a
// moment later knows the client's last part of its table on a segment, or waits until that has a number.
class Pusher final : public PushListener {
 public:
  explicit Pusher(Context& context) : context_(context) {}

  // True: the push's parts get their numbers when they are sent first, because those of a lower priority
  // number may overtake them. Nothing overtakes priority 0. A part that wants its rows back, or whose table
  // is under a value bound, names its number at once.
  static bool IsLate(const PushCall& call);
  void Push(PushCall call);
  // Calls `done` when all earlier pushes are committed, with the first error of a push that has ended since
  // the previous flush. It does not wait for pushes of this clock to aggregated tables, which are committed
  // after this worker's own next tick.
  void Flush(absl::Duration timeout, Done done);
  // The first error of a push that has ended since the last flush.
  absl::Status TakeUnreported() { return std::exchange(unreported_, absl::OkStatus()); }
  // All shards have received the last tick, which requires that all parts are committed.
  void OnFinished();

  // The worker's clock has grown.
  void OnTick();
  // More of the worker's clock may be sent now.
  void TellTicks();
  // context.routes is newer than at the last call. The first one comes before the first push.
  void OnMap();
  // Ends all pushes; no callback is made afterwards.
  void Fail(const absl::Status& why);

  // Number of the last part that has one, and of the last one committed.
  PartNumber Last(SegmentId segment, Line line) const;
  // On the arrival line: SegmentLine::LastOf.
  std::optional<PartNumber> LastOf(SegmentId segment, TableId table, uint64_t push) const;
  PartNumber Committed(SegmentId segment, Line line) const;
  // Packed seals of every line that has parts, for the last tick.
  std::string AllSeals();

  // A point among the pushes: those that were made before it, and those that were held then because they
  // follow other operations.
  struct Point {
    uint64_t pushes = 0;
    uint64_t held = 0;  // 0: none
  };
  Point Now() const { return {.pushes = pushes_, .held = held_.empty() ? 0 : *held_.rbegin()}; }
  // True once all pushes before the point are committed, or were refused for their content. Unlike Flush it
  // also waits for pushes of this clock to aggregated tables. Once those that were held have been made, it
  // sends what filters hold back.
  bool Committed(Point& point) const;
  // The owner holds a push, and has started or dropped it.
  void OnHeld(uint64_t id) { held_.insert(id); }
  void OnHeldEnded(uint64_t id) { held_.erase(id); }

  // See PushLink::BreakOff.
  void BreakOff(const absl::Status& why, bool surely);

  uint64_t unacknowledged_bytes() const { return unacknowledged_bytes_; }
  // Without the parts of this clock for aggregated tables: the bytes that a caller may wait for.
  uint64_t awaitable_bytes() const { return unacknowledged_bytes_ - clock_bytes_; }
  // What the push waited for that was committed last; null: there is none yet.
  const std::shared_ptr<const Causes>& last_causes() const { return last_causes_; }
  // "shard-1 at 127.0.0.1:4711: connection refused": the shard that the oldest part waits for. Empty: there
  // is none.
  std::string WaitsFor() const;
  // The oldest push that is not committed and waits for others, not for this worker's own tick; nullopt:
  // there is none.
  std::optional<Waiting> Waits() const;

  // PushListener:
  void OnNumbered(const SegmentLine& line, const Part& part) override;
  PartNumber SealedAt(SegmentId segment, Line line, Clock clock) const override;
  void OnCommitted(PushLink& link, const wire::Mark& mark) override;
  void OnRefusal(PushLink& link, const v1::Refusal& refusal) override;
  void OnLost(const PushLink& link, const SegmentLine& line, PartNumber here, PartNumber committed) override;

 private:
  struct FlushOp {
    // The last push that it waits for, by line.
    uint64_t arrival = 0;
    uint64_t aggregated = 0;
    Done done;
    Timers::Id timer = {};
  };

  // nullptr: no part was ever made on it.
  SegmentLine* FindLine(SegmentId segment, Line kind) const;
  SegmentLine& LineOf(SegmentId segment, Line kind);
  PushLink& LinkFor(ShardId shard);

  // Gives numbers to all parts that have none.
  void NumberAll();
  // `link` has brought the mark; null: the last tick stands for it.
  void OnCommittedPart(const Part& part, const PushLink* link);
  Waited WaitedFor(const PushOp& op, const Part& part, const PushLink* link) const;
  // The part's bytes are no longer needed.
  void Release(const Part& part);
  void Forget(PushOp& op);
  std::set<uint64_t>& OpsOf(const PushOp& op) { return open_[static_cast<size_t>(op.table->line()) - 1]; }
  void End(PushOp& op, absl::Status status, const std::shared_ptr<const Causes>& causes = nullptr);
  void OnPushDeadline(uint64_t id);
  void CompleteFlushes();
  std::string WaitsFor(const PushOp& op) const;

  // -- pusher_refusals.cc --
  void OnRefusedFrame(PushLink& link, const v1::Refusal& refusal);
  void OnRefusedPart(PushLink& link, SegmentLine& line, Part& part, const v1::Refusal& refusal);
  // The part's content is at fault: its push ends with `why`, and an empty part takes its number.
  void DropContent(SegmentLine& line, Part& part, absl::Status why);
  // True: the shard expects a number that it has said is committed. The client ends.
  bool IsLoss(const PushLink& link, const SegmentLine& line, const Part& part, const v1::Refusal& refusal);
  void GoBack(SegmentLine& line, PartNumber to);
  void GoOn(SegmentLine& line);
  void HoldUntil(SegmentLine& line, absl::Duration pause);
  void HoldForMap(SegmentLine& line, MapVersion version);
  // Ends a hold. The caller refreshes the line.
  void Free(SegmentLine& line);

  // -- pusher_routes.cc --
  void Reroute(SegmentLine& line);
  void UpdateLinks();

  Context& context_;
  std::vector<std::unique_ptr<SegmentLine>> lines_;  // by segment and line; null until used
  std::map<ShardId, std::shared_ptr<PushLink>> links_;
  std::shared_ptr<const Routes> routed_by_;  // the routes the lines follow
  std::map<uint64_t, PushOp> ops_;           // by id; those that have ended but are not committed too
  std::array<std::set<uint64_t>, 2> open_;   // ids of ops_, by line
  std::set<uint64_t> held_;
  uint64_t pushes_ = 0;
  uint64_t pushes_before_ = 0;  // those of earlier clocks
  uint64_t unacknowledged_bytes_ = 0;
  uint64_t clock_bytes_ = 0;  // of which: parts of this clock for aggregated tables
  std::list<FlushOp> flushes_;
  absl::Status unreported_;  // first error of a push since the last flush
  std::shared_ptr<const Causes> last_causes_;
};

}  // namespace paceline::sdk
