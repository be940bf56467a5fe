#include "sdk/cpp/src/pull/puller.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "sdk/cpp/src/bound/value_bounds.h"
#include "sdk/cpp/src/session/promise.h"

namespace paceline::sdk {

uint32_t ParkTimeoutMs(absl::Duration left, absl::Duration most) {
  constexpr absl::Duration kAnother = absl::Seconds(2);  // worth asking once more
  if (left > most + kAnother) left = most;
  if (left == absl::InfiniteDuration()) return 0;
  left -= std::min(left / 5, absl::Milliseconds(200));
  return static_cast<uint32_t>(std::clamp<int64_t>(absl::ToInt64Milliseconds(left), 1, UINT32_MAX));
}

PullLink& Puller::LinkFor(ShardId shard) {
  std::shared_ptr<PullLink>& link = links_[shard];
  if (link == nullptr) {
    link = std::make_shared<PullLink>(context_, *this, *context_.routes->map.FindShard(shard));
  }
  return *link;
}

std::shared_ptr<PullOp> Puller::Begin(PullCall call) {
  auto op = std::make_shared<PullOp>();
  op->id = ++pulls_;
  op->call = std::move(call);
  op->reader = op->call.reader.value_or(context_.worker_clock);
  op->started = context_.Now();
  op->deadline = op->started + op->call.timeout;
  const Batch& batch = *op->call.batch;
  op->left = batch.pieces.size();
  op->parts.resize(batch.pieces.size());
  for (PullPart& part : op->parts) part.since = op->started;
  op->leased = IsBounded(op->call.table->consistency) && !op->call.changes;
  if (op->leased) {
    for (const Batch::Piece& piece : batch.pieces) context_.bounds->Want(piece.segment);
  }
  ops_.emplace(op->id, op);
  if (op->call.cached) context_.cache.OnPullBegun(*op->call.table);
  if (op->call.exact) context_.exact_reads.insert(op->call.min_clock);
  if (op->left == 0) {
    End(*op, absl::OkStatus());
  } else if (op->deadline != absl::InfiniteFuture()) {
    op->timer = context_.timers.At(op->deadline, [this, op] { OnDeadline(op); });
  }
  return op;
}

void Puller::Pull(PullCall call) {
  const std::shared_ptr<PullOp> op = Begin(std::move(call));
  if (op->ended) return;
  op->pushes = pusher_.Now().pushes;
  const bool named = op->call.own_writes && !Planted(Bug::kOwnPartNotNamed);
  for (PullPart& part : op->parts) part.unnumbered = named && op->call.table->line() == Line::kArrival;
  if (!AskNumbered(op)) return;
  unnumbered_.push_back(op);
  // While nothing can be sent nothing gets a number, and pulls end at their deadlines.
  if (unnumbered_.size() < prune_unnumbered_at_) return;
  std::erase_if(unnumbered_, [](const std::shared_ptr<PullOp>& waits) { return waits->ended; });
  prune_unnumbered_at_ = std::max(kPruneAtLeast, 2 * unnumbered_.size());
}

bool Puller::AskNumbered(const std::shared_ptr<PullOp>& op) {
  std::vector<uint32_t> known;
  bool more = false;
  for (uint32_t i = 0; i < op->parts.size(); ++i) {
    PullPart& part = op->parts[i];
    if (part.asking > 0) continue;
    if (part.unnumbered) {
      const SegmentId segment = op->call.batch->pieces[i].segment;
      const auto own = pusher_.LastOf(segment, op->call.table->id, op->pushes);
      more = more || !own.has_value();
      if (!own.has_value()) continue;
      part.own = *own;
      part.unnumbered = false;
      part.since = context_.Now();  // it has waited for this client's own sending, not for a route
    }
    known.push_back(i);
  }
  Ask(op, known);
  return more;
}

void Puller::OnNumbered() {
  std::erase_if(unnumbered_,
                [this](const std::shared_ptr<PullOp>& op) { return op->ended || !AskNumbered(op); });
}

std::shared_ptr<PullOp> Puller::PullWithPush(PullCall call, Clock reader) {
  std::shared_ptr<PullOp> op = Begin(std::move(call));
  op->reader = reader;
  for (PullPart& part : op->parts) part.asking = 1;
  return op;
}

void Puller::Ask(const std::shared_ptr<PullOp>& op, const std::vector<uint32_t>& parts) {
  struct Open {
    PullRequest request;
    size_t bytes = 0;
    SegmentId last;
  };
  std::map<ShardId, Open> open;
  const Batch& batch = *op->call.batch;
  const absl::Time now = context_.Now();
  for (uint32_t index : parts) {
    const Batch::Piece& piece = batch.pieces[index];
    const ShardId shard = context_.routes->map.Primary(piece.segment).shard;
    Open& to = open[shard];
    const size_t bytes = wire::kCertificateBytes + batch.KeyBytes(piece) + batch.ValueBytes(piece);
    const bool full =
        !to.request.parts.empty() && (to.bytes + bytes > context_.slice_bytes || to.last == piece.segment);
    if (full) {
      LinkFor(shard).Ask(std::move(to.request));
      to = Open();
    }
    PullPart& part = op->parts[index];
    part.held_for_map = MapVersion();
    part.routing += now - part.since;  // held, or asked in vain
    part.since = now;
    to.request.op = op;
    to.request.parts.push_back({.part = index, .asking = ++part.asking});
    to.bytes += bytes;
    to.last = piece.segment;
  }
  for (auto& [shard, to] : open) LinkFor(shard).Ask(std::move(to.request));
}

void Puller::AskAfter(const std::shared_ptr<PullOp>& op, uint32_t part, absl::Duration pause) {
  pause *= 1.0 + 0.5 * world::UnitInterval(context_.random);
  const uint32_t asking = ++op->parts[part].asking;
  context_.timers.At(context_.Now() + pause, [this, op, part, asking] {
    if (op->ended || op->parts[part].asking != asking) return;
    Ask(op, {part});
  });
}

void Puller::OnMap() {
  known_.resize(context_.routes->map.SegmentCount());
  context_.cache.Learn(context_.routes->map);
  context_.history.Learn(context_.routes->map);
  const std::shared_ptr<const Routes> before = std::exchange(routed_by_, context_.routes);
  if (before == nullptr) return;
  for (const auto& [id, op] : ops_) {
    std::vector<uint32_t> again;
    for (uint32_t i = 0; i < op->parts.size(); ++i) {
      PullPart& part = op->parts[i];
      if (part.done || part.unnumbered) continue;
      const SegmentId segment = op->call.batch->pieces[i].segment;
      const bool changed = before->map.EpochOf(segment) != context_.routes->map.EpochOf(segment);
      const bool awaited =
          part.held_for_map > MapVersion() && part.held_for_map <= context_.routes->map.version();
      if (!changed && !awaited) continue;
      // From now on an answer of the earlier primary is void: it may never come.
      again.push_back(i);
      part.refused = 0;
    }
    context_.stats.retries += again.size();
    Ask(op, again);
  }
  FollowRoutes(*context_.routes, links_);
  DialHeirs();
}

// A replica of a segment that is read here may be primary next: nobody should wait for a stream then.
void Puller::DialHeirs() {
  for (uint32_t s = 0; s < known_.size(); ++s) {
    if (known_[s].epoch == Epoch()) continue;
    for (const ring::Member& replica : context_.routes->map.Members(SegmentId(s)).subspan(1)) {
      LinkFor(replica.shard).DialAhead();
    }
  }
}

void Puller::OnSending(PullRequest& request, absl::Time usable_since) {
  for (PullRequest::Asked& asked : request.parts) {
    const SegmentId segment = request.Segment(asked);
    asked.min_clock = known_[segment.v].min_clock;
    asked.own = pusher_.Committed(segment, Line::kArrival);
    asked.epoch = known_[segment.v].epoch;
    asked.applied = known_[segment.v].own;
    PullPart& part = request.op->parts[asked.part];
    if (usable_since > part.since) {
      part.routing += usable_since - part.since;
      part.since = usable_since;
    }
  }
}

void Puller::OnLost(PullRequest& request) {
  for (const PullRequest::Asked& asked : request.parts) {
    if (!request.Live(asked)) continue;
    PullPart& part = request.op->parts[asked.part];
    part.routing += context_.Now() - part.since;
    part.since = context_.Now();
    ++context_.stats.retries;
  }
}

void Puller::OnRideLost(PullRequest& request) {
  OnLost(request);
  std::vector<uint32_t> again;
  for (const PullRequest::Asked& asked : request.parts) {
    if (request.Live(asked)) again.push_back(asked.part);
  }
  if (!again.empty()) Ask(request.op, again);
}

void Puller::OnDeadline(const std::shared_ptr<PullOp>& op) {
  if (op->ended) return;
  const auto waiting =
      std::find_if(op->parts.begin(), op->parts.end(), [](const PullPart& p) { return !p.done; });
  if (waiting == op->parts.end()) {
    WaitedBuilder built(context_.Now() - op->started);
    context_.stats.wait.route += built.TakeRest(WaitCause::kRoute);
    return End(*op,
               absl::DeadlineExceededError(absl::StrCat(
                   NameOf(*op), ": all parts are answered, but this client may not hand them out: waited ",
                   absl::FormatDuration(op->call.timeout),
                   " for the shards to count it as a reader under the table's value bound")),
               std::move(built.waited));
  }
  const size_t index = static_cast<size_t>(waiting - op->parts.begin());
  const SegmentId segment = op->call.batch->pieces[index].segment;
  const PullLink& link = LinkFor(context_.routes->map.Primary(segment).shard);
  std::string message =
      absl::StrCat(NameOf(*op), ": ", op->left, " of ", op->parts.size(), " parts not answered; waited ",
                   absl::FormatDuration(op->call.timeout), " for ", link.Describe());
  if (!waiting->last_refusal.empty()) absl::StrAppend(&message, "; its last answer: ", waiting->last_refusal);
  absl::StrAppend(&message, "; pull again to go on waiting");
  WaitedBuilder built(context_.Now() - op->started);
  if (link.usable() && waiting->last_refusal.empty()) {
    context_.stats.wait.network += built.TakeRest(WaitCause::kNetwork);
  } else {
    context_.stats.wait.route += built.TakeRest(WaitCause::kRoute);
  }
  End(*op, absl::DeadlineExceededError(message), std::move(built.waited));
}

// The refusal of one of its parts says most.
std::optional<Waiting> Puller::Waits() const {
  if (ops_.empty()) return std::nullopt;
  const PullOp& op = *ops_.begin()->second;
  const Batch& batch = *op.call.batch;
  Waiting waiting{.what = NameOf(op), .since = op.started, .whom = ""};
  for (size_t i = 0; i < op.parts.size(); ++i) {
    const PullPart& part = op.parts[i];
    if (part.done || (!waiting.whom.empty() && part.last_refusal.empty())) continue;
    const auto link = links_.find(context_.routes->map.Primary(batch.pieces[i].segment).shard);
    waiting.whom = link == links_.end() ? "a shard that is not known yet" : link->second->Describe();
    if (part.last_refusal.empty()) continue;
    absl::StrAppend(&waiting.whom, "; its last answer: ", part.last_refusal);
    break;
  }
  if (waiting.whom.empty()) waiting.whom = "the shards to count this client as a reader (value bound)";
  return waiting;
}

void Puller::End(PullOp& op, absl::Status status, std::optional<Waited> waited) {
  if (op.ended) return;
  op.ended = true;
  for (uint32_t i = 0; i < op.parts.size(); ++i) Drop(op, i);
  std::shared_ptr<const Causes> causes;
  absl::Duration took = context_.Now() - op.started;
  if (waited.has_value()) {
    took -= waited->causes[WaitCause::kStaleness];  // says nothing of what its rows cost
    waited->table = op.call.table;
    context_.times->Ended(*waited);
    causes = std::make_shared<const Causes>(Causes{.waited = *std::move(waited), .ledger = context_.times});
  }
  if (op.call.cached) {
    context_.cache.OnPullEnded(
        *op.call.table, {.rows = status.ok() ? op.call.batch->rows : 0, .took = took, .pulls = ops_.size()});
  }
  if (op.call.changes) context_.cache.OnRefreshEnded(*op.call.table, *op.call.batch);
  context_.timers.Cancel(op.timer);
  if (op.call.exact) {
    context_.exact_reads.erase(context_.exact_reads.find(op.call.min_clock));
    context_.exact_read_ended();
  }
  context_.deferred.Run(
      [sink = std::move(op.call.sink), status = std::move(status), causes = std::move(causes)] {
        const Ending ending(causes);
        sink->Done(status);
      });
  op.call.batch = nullptr;
  ops_.erase(op.id);
}

void Puller::Fail(const absl::Status& why) {
  while (!ops_.empty()) {
    const std::shared_ptr<PullOp> op = ops_.begin()->second;
    End(*op, why);
  }
  unnumbered_.clear();
  for (auto& [shard, link] : links_) link->Shut();
  links_.clear();
}

}  // namespace paceline::sdk
