#include "sdk/cpp/src/pull_link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/cpp/src/gatherer.h"
#include "sdk/cpp/src/puller.h"

namespace paceline::sdk {
namespace {

// What the shard is told to wait at most: a little less than what is left, so that its answer, which names
// whom it waited for, comes before our own deadline.
uint32_t TimeoutMs(absl::Duration left) {
  if (left == absl::InfiniteDuration()) return 0;  // the shard's own limit
  left -= std::min(left / 10, absl::Milliseconds(200));
  return static_cast<uint32_t>(std::clamp<int64_t>(absl::ToInt64Milliseconds(left), 1, UINT32_MAX));
}

const v1::Refusal* FindRefusal(const v1::PullReply& reply, SegmentId segment) {
  for (const v1::Refusal& refusal : reply.refusals()) {
    if (refusal.segment() == segment.v) return &refusal;
  }
  return reply.refusals_size() == 1 ? &reply.refusals(0) : nullptr;
}

}  // namespace

PullLink::PullLink(Context& context, Puller& puller, ring::ShardInfo shard)
    : Link(context, world::StreamKind::kPull, std::move(shard)), puller_(puller) {}

void PullLink::Ask(PullRequest request) {
  Put(std::move(request));
  Wake();
}

void PullLink::Put(PullRequest request) {
  request.id = ++ids_;
  const QueuePlace place{~request.op->call.priority, request.id};
  queue_.emplace(place, std::move(request));
}

bool PullLink::Next(absl::Cord* frame) {
  while (!queue_.empty()) {
    const auto first = queue_.begin();
    PullRequest& request = first->second;
    const auto stale = [&request](const PullRequest::Asked& asked) { return !request.Live(asked); };
    request.parts.erase(std::remove_if(request.parts.begin(), request.parts.end(), stale),
                        request.parts.end());
    if (request.parts.empty()) {
      queue_.erase(first);
      continue;
    }
    absl::Cord bytes = wire::Encode(Fill(request));
    // The stream has no mark for what was taken: an answer frees the window.
    if (asked_bytes_ > 0 && asked_bytes_ + bytes.size() > window_bytes()) return false;
    request.bytes = bytes.size();
    request.sent = context_.Now();
    asked_bytes_ += request.bytes;
    puller_.OnSending(request, usable_since());
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
  head.set_key_form(batch.ranges ? v1::KEY_FORM_RANGES : v1::KEY_FORM_KEYS);
  head.set_priority(op.call.priority);
  head.set_timeout_ms(TimeoutMs(op.deadline - context_.Now()));
  Gatherer keys(frame.keys);
  for (const PullRequest::Asked& asked : request.parts) {
    const Batch::Piece& piece = batch.pieces[asked.part];
    wire::Append(wire::PartEntry{.segment = piece.segment,
                                 .count = piece.entries,
                                 .epoch = context_.routes->map.EpochOf(piece.segment),
                                 .number = op.parts[asked.part].own},
                 *head.mutable_parts());
    keys.Add(batch.Keys(piece), op.call.batch);
  }
  return frame;
}

void PullLink::Receive(absl::Cord bytes) {
  absl::StatusOr<Reply> reply = wire::Decode<v1::PullReply>(bytes);
  if (!reply.ok()) return BrokeRules(reply.status());
  if (reply->head.has_welcome()) Welcomed(reply->head.welcome());
  if (!usable()) {
    if (reply->head.refusals_size() > 0) RefusedAtHello(reply->head.refusals(0));
    return;
  }
  const auto asked = asked_.find(reply->head.request());
  if (asked == asked_.end()) {
    // An answer to nothing is of no use; a refusal without a request says that the shard could not read one.
    for (const v1::Refusal& refusal : reply->head.refusals()) puller_.OnRefusedStream(*this, refusal);
    return;
  }
  PullRequest request = std::move(asked->second);
  asked_.erase(asked);
  asked_bytes_ -= request.bytes;
  OnReply(*reply, std::move(request));
  Wake();  // there is room in the window
}

void PullLink::OnReply(const Reply& reply, PullRequest request) {
  const auto certificates = wire::ParseCertificates(reply.head.certificates());
  if (!certificates.ok()) return BrokeRules(certificates.status());
  if (certificates->empty() && reply.head.refusals_size() > 0) {
    return RefuseAll(request, reply.head.refusals(0));
  }
  if (certificates->size() != request.parts.size()) {
    return BrokeRules(absl::InternalError(
        absl::StrCat("certificates: ", certificates->size(), " for ", request.parts.size(), " parts")));
  }
  if (request.op->ended) return;
  if (!Fits(reply, request, *certificates)) {
    return BrokeRules(
        absl::InternalError("a reply whose certificates, values and refusals do not fit the request"));
  }
  HandOut(reply, request, *certificates);
}

bool PullLink::Fits(const Reply& reply, const PullRequest& request,
                    const std::vector<wire::Certificate>& certificates) {
  size_t bytes = 0;
  for (size_t i = 0; i < certificates.size(); ++i) {
    const Batch::Piece& piece = request.op->call.batch->pieces[request.parts[i].part];
    if (certificates[i].segment != piece.segment) return false;
    if (certificates[i].served) {
      bytes += request.op->call.batch->ValueBytes(piece);
    } else if (FindRefusal(reply.head, piece.segment) == nullptr) {
      return false;
    }
  }
  return bytes == reply.values.size();
}

void PullLink::HandOut(const Reply& reply, const PullRequest& request,
                       const std::vector<wire::Certificate>& certificates) {
  const std::shared_ptr<const Batch> batch = request.op->call.batch;  // what is handed out may end the pull
  size_t at = 0;
  for (size_t i = 0; i < certificates.size(); ++i) {
    const PullRequest::Asked& asked = request.parts[i];
    const Batch::Piece& piece = batch->pieces[asked.part];
    const size_t bytes = certificates[i].served ? batch->ValueBytes(piece) : 0;
    if (!request.Live(asked)) {
      // Asked anew meanwhile.
    } else if (certificates[i].served) {
      puller_.OnServed(*this, request, asked, certificates[i], reply.values.Subcord(at, bytes), reply.head);
    } else {
      puller_.OnRefused(*this, request, asked, *FindRefusal(reply.head, piece.segment));
    }
    at += bytes;
  }
}

void PullLink::RefuseAll(const PullRequest& request, const v1::Refusal& refusal) {
  for (const PullRequest::Asked& asked : request.parts) {
    if (request.Live(asked)) puller_.OnRefused(*this, request, asked, refusal);
  }
}

void PullLink::OnUp() {}

void PullLink::OnDown() {
  auto lost = std::move(asked_);
  asked_.clear();
  asked_bytes_ = 0;
  for (auto& [id, request] : lost) {
    puller_.OnLost(request);
    Put(std::move(request));
  }
}

}  // namespace paceline::sdk
