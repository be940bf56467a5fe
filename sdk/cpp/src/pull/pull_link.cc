#include "sdk/cpp/src/pull/pull_link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/wire/partial.h"
#include "sdk/cpp/src/pull/filtered_rows.h"
#include "sdk/cpp/src/pull/gatherer.h"

namespace paceline::sdk {

PullLink::PullLink(Context& context, PullListener& listener, ring::ShardInfo shard)
    : Link(context, world::StreamKind::kPull, std::move(shard)),
      listener_(listener),
      filter_counts_(context.stats.link_pull_filters),
      key_encoder_(context.clock, filter_counts_) {}

void PullLink::Ask(PullRequest request) {
  Put(std::move(request));
  Wake();
}

void PullLink::Put(PullRequest request) {
  request.id = ++ids_;
  const QueuePlace place{request.op->call.priority, request.id};
  queue_.emplace(place, std::move(request));
  if (queue_.size() < prune_at_) return;
  // While the shard is away the queue does not shrink by sending, and pulls end at their deadlines.
  for (auto it = queue_.begin(); it != queue_.end();)
    it = Prune(it->second) ? std::next(it) : queue_.erase(it);
  prune_at_ = std::max(kPruneAtLeast, 2 * queue_.size());
}

bool PullLink::Prune(PullRequest& request) {
  std::erase_if(request.parts, [&](const PullRequest::Asked& asked) { return !request.Live(asked); });
  return !request.parts.empty();
}

bool PullLink::Next(absl::Cord* frame) {
  while (!queue_.empty()) {
    const auto first = queue_.begin();
    PullRequest& request = first->second;
    if (!Prune(request)) {
      queue_.erase(first);
      continue;
    }
    wire::Frame<v1::PullRequest> plain = Fill(request);
    // The stream has no mark for what was taken: an answer frees the window.
    const size_t most = plain.head.ByteSizeLong() + plain.BlobBytes();
    if (asked_bytes_ > 0 && asked_bytes_ + most > window_bytes()) return false;
    Code(*request.op, plain);
    absl::Cord bytes = wire::Encode(plain);
    request.bytes = most;
    context_.stats.link_bytes_pulled += bytes.size();
    request.sent = context_.Now();
    asked_bytes_ += request.bytes;
    listener_.OnSending(request, usable_since());
    const uint64_t id = request.id;
    asked_.emplace(id, std::move(request));
    queue_.erase(first);
    *frame = std::move(bytes);
    return true;
  }
  return false;
}

wire::Frame<v1::PullRequest> PullLink::Fill(PullRequest& request) const {
  const PullOp& op = *request.op;
  const Batch& batch = *op.call.batch;
  wire::Frame<v1::PullRequest> frame;
  v1::PullRequest& head = frame.head;
  head.set_request(request.id);
  head.set_table(op.call.table->id.v);
  head.set_catalogue_version(context_.catalogue_version.v);
  head.set_min_clock(op.call.min_clock);
  head.set_reader_clock_plus_one(context_.worker ? op.reader + 1 : 0);
  const Reducing* const reducing = op.call.reducing.get();
  head.set_key_form(op.call.changes       ? v1::KEY_FORM_CHANGES
                    : reducing != nullptr ? v1::KEY_FORM_REDUCTION
                    : batch.ranges        ? v1::KEY_FORM_RANGES
                                          : v1::KEY_FORM_KEYS);
  if (reducing != nullptr) *head.mutable_reduction() = wire::ToProto(reducing->query());
  head.set_priority(op.call.priority);
  head.set_timeout_ms(ParkTimeoutMs(op.deadline - context_.Now(), context_.park_max));
  head.mutable_parts()->reserve(request.parts.size() * wire::kPartEntryBytes);
  Gatherer keys(frame.keys, batch.SharesKeysFrom());
  for (const PullRequest::Asked& asked : request.parts) {
    const Batch::Piece& piece = batch.pieces[asked.part];
    wire::Append(wire::PartEntry{.segment = piece.segment,
                                 .count = piece.entries,
                                 .epoch = context_.routes->map.EpochOf(piece.segment),
                                 .number = op.parts[asked.part].own},
                 *head.mutable_parts());
    if (reducing != nullptr) {
      frame.keys.Append(reducing->PlaceOf(asked.part));
    } else {
      keys.Add(batch.Keys(piece), batch.keys);
    }
  }
  return frame;
}

void PullLink::Code(const PullOp& op, wire::Frame<v1::PullRequest>& frame) {
  if (op.call.changes || op.call.reducing != nullptr) return;
  const TableInfo& table = *op.call.table;
  const Batch& batch = *op.call.batch;
  const filter::FilterSet keys = key_encoder_.Encode(table.link_filters.pull & filters(),
                                                     batch.ranges ? 2 : 1, frame.keys, batch.LastingKeys());
  for (const uint32_t number : keys.Numbers()) frame.head.add_key_filters(number);
  for (const uint32_t number : RowFiltersOf(op.call, reply_filters()).Numbers())
    frame.head.add_filters(number);
}

void PullLink::Receive(absl::Cord bytes) {
  absl::StatusOr<wire::Frame<v1::PullReply>> reply = wire::Decode<v1::PullReply>(bytes);
  if (!reply.ok()) return BrokeRules(reply.status());
  if (reply->head.has_welcome()) Welcomed(reply->head.welcome());
  if (!usable()) {
    if (reply->head.refusals_size() > 0) RefusedAtHello(reply->head.refusals(0));
    return;
  }
  const auto asked = asked_.find(reply->head.request());
  if (asked == asked_.end()) {
    // An answer without a request is of no use; a refusal without one says that the shard could not read a
    // request.
    for (const v1::Refusal& refusal : reply->head.refusals()) listener_.OnRefusedStream(*this, refusal);
    return;
  }
  PullRequest request = std::move(asked->second);
  asked_.erase(asked);
  asked_bytes_ -= request.bytes;
  context_.stats.link_bytes_pulled += bytes.size();
  if (absl::Status read =
          DecodeRows(request, reply->head.filters(), context_.clock, filter_counts_, reply->values);
      !read.ok()) {
    return BrokeRules(read);
  }
  if (absl::Status kept = listener_.OnReply(*this, request, *reply); !kept.ok()) return BrokeRules(kept);
  Wake();  // there is room in the window
}

void PullLink::OnUp() {
  key_encoder_.Begin(key_list_bytes());
}

void PullLink::OnDown() {
  auto lost = std::move(asked_);
  asked_.clear();
  asked_bytes_ = 0;
  for (auto& [id, request] : lost) {
    listener_.OnLost(request);
    Put(std::move(request));
  }
}

}  // namespace paceline::sdk
