#include "sdk/cpp/src/puller.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"

namespace paceline::sdk {

PullLink& Puller::LinkFor(ShardId shard) {
  std::shared_ptr<PullLink>& link = links_[shard];
  if (link == nullptr) {
    link = std::make_shared<PullLink>(context_, *this, *context_.routes->map.FindShard(shard));
  }
  return *link;
}

void Puller::Pull(PullCall call) {
  auto op = std::make_shared<PullOp>();
  op->id = ++pulls_;
  op->call = std::move(call);
  op->reader = context_.worker_clock;
  op->started = context_.Now();
  op->deadline = op->started + op->call.timeout;
  const Batch& batch = *op->call.batch;
  op->left = batch.pieces.size();
  op->parts.resize(batch.pieces.size());
  std::vector<uint32_t> all;
  for (uint32_t i = 0; i < batch.pieces.size(); ++i) {
    const bool named = op->call.own_writes && !Planted(Bug::kOwnPartNotNamed);
    if (named && op->call.table->line() == Line::kArrival) {
      op->parts[i].own = pusher_.Last(batch.pieces[i].segment, Line::kArrival);
    }
    op->parts[i].since = op->started;
    all.push_back(i);
  }
  ops_.emplace(op->id, op);
  if (op->left == 0) return End(*op, absl::OkStatus());
  if (op->deadline != absl::InfiniteFuture()) {
    op->timer = context_.timers.At(op->deadline, [this, op] { OnDeadline(op); });
  }
  Ask(op, all);
}

void Puller::Ask(const std::shared_ptr<PullOp>& op, const std::vector<uint32_t>& parts) {
  struct Open {
    PullRequest request;
    size_t bytes = 0;
    SegmentId last;
  };
  std::map<ShardId, Open> open;
  const Batch& batch = *op->call.batch;
  for (uint32_t index : parts) {
    const Batch::Piece& piece = batch.pieces[index];
    const ShardId shard = context_.routes->map.Primary(piece.segment).shard;
    Open& to = open[shard];
    const size_t bytes = wire::kCertificateBytes + batch.KeyBytes(piece) + batch.ValueBytes(piece);
    const bool full =
        !to.request.parts.empty() && (to.bytes + bytes > kFrameBytes || to.last == piece.segment);
    if (full) {
      LinkFor(shard).Ask(std::move(to.request));
      to = Open();
    }
    PullPart& part = op->parts[index];
    part.held_for_map = MapVersion();
    part.routing += context_.Now() - part.since;  // held, or asked in vain
    part.since = context_.Now();
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
  const std::shared_ptr<const Routes> before = std::exchange(routed_by_, context_.routes);
  if (before == nullptr) return;
  for (const auto& [id, op] : ops_) {
    std::vector<uint32_t> again;
    for (uint32_t i = 0; i < op->parts.size(); ++i) {
      PullPart& part = op->parts[i];
      if (part.done) continue;
      const SegmentId segment = op->call.batch->pieces[i].segment;
      const bool changed = before->map.EpochOf(segment) != context_.routes->map.EpochOf(segment);
      const bool awaited =
          part.held_for_map > MapVersion() && part.held_for_map <= context_.routes->map.version();
      if (!changed && !awaited) continue;
      // From now on an answer of the primary before is void: it may never come.
      again.push_back(i);
    }
    context_.stats.retries += again.size();
    Ask(op, again);
  }
  for (auto it = links_.begin(); it != links_.end();) {
    const ring::ShardInfo* shard = context_.routes->map.FindShard(it->first);
    if (shard == nullptr || context_.routes->PrimariesOf(it->first).empty()) {
      it->second->Shut();
      it = links_.erase(it);
      continue;
    }
    it->second->SetShard(*shard);
    ++it;
  }
}

void Puller::OnSending(PullRequest& request, absl::Time usable_since) {
  for (PullRequest::Asked& asked : request.parts) {
    const SegmentId segment = request.Segment(asked);
    asked.min_clock = known_[segment.v].min_clock;
    asked.own = std::max(known_[segment.v].own, pusher_.Committed(segment, Line::kArrival));
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

void Puller::OnDeadline(const std::shared_ptr<PullOp>& op) {
  if (op->ended) return;
  const auto waiting =
      std::find_if(op->parts.begin(), op->parts.end(), [](const PullPart& p) { return !p.done; });
  const size_t index = static_cast<size_t>(waiting - op->parts.begin());
  const SegmentId segment = op->call.batch->pieces[index].segment;
  const PullLink& link = LinkFor(context_.routes->map.Primary(segment).shard);
  std::string message =
      absl::StrCat(NameOf(*op), ": ", op->left, " of ", op->parts.size(), " parts not answered; waited ",
                   absl::FormatDuration(op->call.timeout), " for ", link.Describe());
  if (!waiting->last_refusal.empty()) absl::StrAppend(&message, "; its last answer: ", waiting->last_refusal);
  const double seconds = absl::ToDoubleSeconds(context_.Now() - op->started);
  (link.usable() && waiting->last_refusal.empty() ? context_.stats.wait.network
                                                  : context_.stats.wait.route) += seconds;
  End(*op, absl::DeadlineExceededError(message));
}

void Puller::End(PullOp& op, absl::Status status) {
  if (op.ended) return;
  op.ended = true;
  context_.timers.Cancel(op.timer);
  context_.deferred.Run([sink = std::move(op.call.sink), status = std::move(status)] { sink->Done(status); });
  op.call.batch = nullptr;
  ops_.erase(op.id);
}

void Puller::Fail(const absl::Status& why) {
  while (!ops_.empty()) {
    const std::shared_ptr<PullOp> op = ops_.begin()->second;
    End(*op, why);
  }
  for (auto& [shard, link] : links_) link->Shut();
  links_.clear();
}

}  // namespace paceline::sdk
