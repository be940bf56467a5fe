#include "sdk/cpp/src/push/push_link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "libs/base/status.h"
#include "libs/wire/packed.h"
#include "sdk/cpp/src/pull/filtered_rows.h"
#include "sdk/cpp/src/pull/gatherer.h"

namespace paceline::sdk {
namespace {

// Room for a frame's header besides its parts.
constexpr size_t kHeadBytes = 4096;
// Parts of later pushes join a frame up to this size: beyond it a frame costs little beside its bytes, and
// the first push in it would wait for the others.
constexpr size_t kSharedBytes = size_t{64} << 10;
// A tick without an answer for this long is sent again, completely: its frame may have been refused whole.
constexpr absl::Duration kTickAnswer = absl::Seconds(1);
// After a while the link asks again a shard that twice did not speak for a segment: it is about to become its
// primary.
constexpr BackoffPolicy kTickAgain{.initial = absl::Milliseconds(10), .max = kTickAnswer};

// The pull whose rows the part brings back; null: none, or the client has asked for them in another way
// meanwhile.
const PullOp* ReadOf(const Part& part) {
  if (part.read == nullptr || part.batch == nullptr || part.read->ended) return nullptr;
  const PullPart& read = part.read->parts[part.piece];
  return read.asking == 1 && !read.done ? part.read.get() : nullptr;
}

absl::Duration DurationOf(uint64_t us) {
  return absl::Microseconds(std::min<uint64_t>(us, INT64_MAX));
}

bool MayShareAFrame(const SegmentLine& a, const Part& x, const SegmentLine& b) {
  const Part& y = b.Next();
  return a.kind() == b.kind() && x.table == y.table && x.clock == y.clock && x.ranges == y.ranges &&
         ReadOf(x) == ReadOf(y);
}

}  // namespace

PushLink::PushLink(Context& context, PushListener& listener, ring::ShardInfo shard)
    : Link(context, world::StreamKind::kPush, std::move(shard)),
      listener_(listener),
      tick_pauses_(kTickAgain),
      filter_counts_(context.stats.link_push_filters),
      key_encoder_(context.clock, filter_counts_) {}

void PushLink::Bind(SegmentLine& line) {
  line.link = this;
  lines_.emplace(line.id(), &line);
  Requeue(line);
}

void PushLink::Unbind(SegmentLine& line) {
  if (line.queued.has_value()) queue_.erase(*line.queued);
  line.queued.reset();
  lines_.erase(line.id());
  line.link = nullptr;
}

void PushLink::Requeue(SegmentLine& line) {
  const bool waits = !line.held && line.HasWaiting();
  if (!waits && !line.queued.has_value()) return;
  std::optional<QueueKey> key;
  if (waits) {
    const Part& next = line.Next();
    key = QueueKey{.clock = next.clock,
                   .urgency = next.urgency,
                   .push = next.push,
                   .rank = context_.routes->rank[line.segment().v],
                   .line = line.id()};
  }
  if (key == line.queued) return;
  if (line.queued.has_value()) queue_.erase(*line.queued);
  line.queued = key;
  // A push comes after those before it, and its parts come in order.
  if (key.has_value()) queue_.emplace_hint(queue_.end(), *key, &line);
}

bool PushLink::HasWork() const {
  if (TickDue()) return true;
  return std::any_of(lines_.begin(), lines_.end(), [](const auto& entry) { return !entry.second->Empty(); });
}

bool PushLink::TickDue() const {
  return context_.worker && !context_.finished && context_.worker_clock > context_.start_clock &&
         teller_.Due(context_.worker_clock);
}

Clock PushLink::TellableClock() const {
  Clock clock = context_.worker_clock;
  if (!context_.exact_reads.empty()) clock = std::min(clock, *context_.exact_reads.begin());
  for (const auto& [key, line] : queue_) {
    if (Planted(Bug::kTickBeforeNumbers) && line->Next().number == 0) continue;
    clock = std::min(clock, line->Next().clock);
  }
  return clock;
}

void PushLink::AddTick(v1::PushPullRequest& head) {
  if (!TickDue()) return;
  const Clock clock = TellableClock();
  if (clock <= context_.start_clock || !teller_.Due(clock)) return;
  *head.mutable_tick() = teller_.Tell(
      clock, [this](SegmentId segment, Line line, Clock c) { return listener_.SealedAt(segment, line, c); });
  head.mutable_tick()->set_number(++ticks_);
  committed_then_.clear();
  for (const auto& [id, line] : lines_) {
    if (line->committed() > 0) committed_then_.emplace_hint(committed_then_.end(), id, line->committed());
  }
  if (context_.Now() + kTickAnswer > tick_again_) return;
  SetTickTimer(kTickAnswer);
}

// One timer counts: the latest that was set.
void PushLink::SetTickTimer(absl::Duration pause) {
  tick_again_ = context_.Now() + pause;
  context_.timers.At(tick_again_, [self = shared_from_this(), this, at = tick_again_] {
    if (at == tick_again_) OnTickTimer();
  });  // may come after Shut
}

void PushLink::OnTickTimer() {
  tick_again_ = absl::InfiniteFuture();
  if (!usable() || !teller_.Unanswered()) return;
  teller_.ForgetAll();
  Wake();
}

bool PushLink::OneEach(const Part& first) const {
  return feature_level() < 2 || ReadOf(first) != nullptr;
}

size_t PushLink::SharedBytesMax(const Part& first) const {
  // A list of the keys of two pushes that happened to wait together would not come again.
  const bool lists = (first.info->link_filters.push & filters()).Has(filter::Filter::kKeys);
  return lists ? 0 : kSharedBytes;
}

std::vector<PushLink::Picked> PushLink::Take() {
  const size_t max = std::min<size_t>(std::min<size_t>(context_.slice_bytes, kPushFrameBytes),
                                      frame_bytes_max() - std::min(frame_bytes_max(), kHeadBytes));
  const Part& next = queue_.begin()->second->Next();
  const bool one_each = OneEach(next);
  const size_t shared_max = SharedBytesMax(next);
  const size_t parts_max = wire::FramePartsMax(context_.routes->map.SegmentCount());
  std::vector<Picked> picked;
  size_t bytes = 0;
  bool numbered = false;
  while (!queue_.empty() && picked.size() < parts_max) {
    SegmentLine& line = *queue_.begin()->second;
    const size_t more = wire::kPartEntryBytes + line.Next().Bytes();
    if (!picked.empty()) {
      const Picked& first = picked.front();
      if (bytes + more > (line.Next().push == first.part->push ? max : shared_max)) break;
      if (!FitsWindow(bytes + more) || !IsGranted(parts_bytes_ + bytes)) break;
      if (!MayShareAFrame(*first.line, *first.part, line) || (one_each && line.SentIn(sent_ + 1))) break;
    }
    if (line.Next().number == 0) {
      listener_.OnNumbered(line, line.NumberFirst());
      numbered = true;
    }
    picked.push_back({.line = &line, .part = &line.Next()});
    bytes += more;
    queue_.erase(queue_.begin());
    line.queued.reset();
    line.Sent(sent_ + 1);
    Requeue(line);
  }
  if (numbered) context_.puller->OnNumbered();
  return picked;
}

bool PushLink::Fill(const std::vector<Picked>& picked, Request& request) const {
  if (picked.empty()) return false;
  const Part& first = *picked.front().part;
  v1::PushPullRequest& head = request.head;
  head.set_table(first.table.v);
  head.set_clock(first.clock);
  head.set_line(static_cast<v1::Line>(picked.front().line->kind()));
  head.set_key_form(first.ranges ? v1::KEY_FORM_RANGES : v1::KEY_FORM_KEYS);
  head.set_priority(first.urgency);
  head.mutable_parts()->reserve(picked.size() * wire::kPartEntryBytes);
  Gatherer keys(request.keys, first.batch == nullptr ? wire::kWorthSharing : first.batch->SharesKeysFrom());
  Gatherer values(request.values, context_.shares_from);
  const bool lets_go = LetsGoOfFrames();
  bool shares_lent = false;
  for (const auto& [line, sent] : picked) {
    const Part& part = *sent;
    const Batch::Piece* content = part.Content();
    wire::Append(wire::PartEntry{.segment = line->segment(),
                                 .count = content == nullptr ? 0 : content->entries,
                                 .epoch = context_.routes->map.EpochOf(line->segment()),
                                 .number = part.number},
                 *head.mutable_parts());
    if (content == nullptr) continue;
    const Batch& batch = *part.batch;
    keys.Add(batch.Keys(*content), batch.keys);
    if (batch.lent && !lets_go) {
      values.Copy(batch.Values(*content));
    } else {
      values.Add(batch.Values(*content), batch.values);
      shares_lent = shares_lent || batch.lent;
    }
  }
  return shares_lent;
}

void PushLink::Code(const std::vector<Picked>& picked, Request& request) {
  if (picked.empty()) return;
  const Part& first = *picked.front().part;
  const TableInfo& table = *first.info;
  const filter::FilterSet wanted = table.link_filters.push & filters();
  const filter::LastingMemory lasting =
      first.batch == nullptr ? filter::LastingMemory() : first.batch->LastingKeys();
  const filter::FilterSet applied =
      key_encoder_.Encode(wanted, first.ranges ? 2 : 1, request.keys, lasting) |
      filter::EncodeValues(wanted, table.schema.dim, request.values, context_.clock, filter_counts_);
  for (const uint32_t number : applied.Numbers()) request.head.add_filters(number);
}

bool PushLink::Next(absl::Cord* frame) {
  if (queue_.empty() && !TickDue()) return false;
  const size_t least = queue_.empty() ? 0 : wire::kPartEntryBytes + queue_.begin()->second->Next().Bytes();
  if (least + kHeadBytes > frame_bytes_max()) {
    context_.fail(absl::InternalError(absl::StrCat(Describe(), ": takes frames of at most ",
                                                   frame_bytes_max(), " bytes, but a part has ", least,
                                                   "; raise its limit to 1 MiB or more")));
    return false;
  }
  if (!FitsWindow(least)) return false;
  std::vector<Picked> picked;
  if (!queue_.empty() && !AwaitsGrant()) picked = Take();
  Request request;
  request.head.set_catalogue_version(context_.catalogue_version.v);
  const bool shares_lent = Fill(picked, request);
  AddRead(picked, request.head);
  const size_t plain = request.BlobBytes();
  Code(picked, request);
  AddTick(request.head);
  if (picked.empty() && !request.head.has_tick()) return false;
  *frame = wire::Encode(request);
  ++sent_;
  if (shares_lent) lent_upto_ = sent_;
  unreceived_.push_back(frame->size());
  unreceived_bytes_ += frame->size();
  if (!picked.empty()) {
    parts_bytes_ += filter::Weight(frame->size(), request.BlobBytes(), plain);
    context_.stats.link_bytes_pushed += frame->size();
  }
  return true;
}

bool PushLink::FitsWindow(size_t bytes) const {
  return feature_level() >= 2 || unreceived_bytes_ == 0 ||
         unreceived_bytes_ + bytes + kHeadBytes <= window_bytes();
}

void PushLink::AddRead(const std::vector<Picked>& picked, v1::PushPullRequest& head) {
  if (picked.empty() || ReadOf(*picked.front().part) == nullptr) return;
  PullRequest request;
  request.id = ++reads_;
  request.rides = true;
  request.op = picked.front().part->read;
  for (const Picked& one : picked) request.parts.push_back({.part = one.part->piece, .asking = 1});
  request.sent = context_.Now();
  context_.puller->OnSending(request, usable_since());
  const PullOp& op = *request.op;
  head.set_request(request.id);
  head.set_want_reply(true);
  head.set_min_clock(op.call.min_clock);
  head.set_reader_clock_plus_one(context_.worker ? op.reader + 1 : 0);
  head.set_timeout_ms(ParkTimeoutMs(op.deadline - context_.Now(), context_.park_max));
  for (const uint32_t number : RowFiltersOf(op.call, reply_filters()).Numbers()) {
    head.add_reply_filters(number);
  }
  asked_.emplace(request.id, std::move(request));
}

void PushLink::OnRows(wire::Frame<v1::PushPullReply>& reply) {
  const auto asked = asked_.find(reply.head.request());
  if (asked == asked_.end()) return;
  const PullRequest request = std::move(asked->second);
  asked_.erase(asked);
  wire::Frame<v1::PullReply> rows;
  rows.head.set_certificates(std::move(*reply.head.mutable_certificates()));
  rows.head.mutable_refusals()->Swap(reply.head.mutable_read_refusals());
  rows.head.set_wait_staleness_us(reply.head.wait_staleness_us());
  rows.head.set_wait_queue_us(reply.head.wait_queue_us());
  rows.head.set_wait_apply_us(reply.head.wait_apply_us());
  rows.head.set_wait_replication_us(reply.head.wait_replication_us());
  rows.head.set_waited_for_rank_plus_one(reply.head.waited_for_rank_plus_one());
  rows.values = std::move(reply.values);
  context_.stats.link_bytes_pulled += rows.values.size();
  if (absl::Status read =
          DecodeRows(request, reply.head.filters(), context_.clock, filter_counts_, rows.values);
      !read.ok()) {
    return BrokeRules(read);
  }
  if (absl::Status kept = context_.puller->OnReply(*this, request, rows); !kept.ok()) BrokeRules(kept);
}

void PushLink::Receive(absl::Cord frame) {
  absl::StatusOr<wire::Frame<v1::PushPullReply>> decoded = wire::Decode<v1::PushPullReply>(frame);
  if (!decoded.ok()) return BrokeRules(decoded.status());
  const v1::PushPullReply& reply = decoded->head;
  if (reply.has_welcome()) Welcomed(reply.welcome());
  // Refusals first: a refusal that shares a frame with a mark may be older than the mark.
  for (const v1::Refusal& refusal : reply.refusals()) {
    if (!usable()) return RefusedAtHello(refusal);
    listener_.OnRefusal(*this, refusal);
  }
  const auto marks = wire::ParseMarks(reply.committed());
  if (!marks.ok()) return BrokeRules(marks.status());
  if (reply.frame_queue_us() > 0 || reply.frame_apply_us() > 0) {
    frame_times_ = {.queue = DurationOf(reply.frame_queue_us()), .apply = DurationOf(reply.frame_apply_us())};
  }
  for (const wire::Mark& mark : *marks) listener_.OnCommitted(*this, mark);
  for (const v1::TickAck& ack : reply.ticks()) OnTickAck(ack);
  OnReceived(reply.received());
  OnGranted(reply.granted());
  if (reply.request() != 0) OnRows(*decoded);
}

void PushLink::OnReceived(uint64_t frames) {
  if (frames > sent_) {
    return BrokeRules(
        absl::InternalError(absl::StrCat("received: ", frames, " frames; only ", sent_, " were sent")));
  }
  if (frames <= received_) return;
  for (; received_ < frames; ++received_) {
    unreceived_bytes_ -= unreceived_.front();
    unreceived_.pop_front();
  }
  received_at_ = context_.Now();
  Wake();
}

void PushLink::OnGranted(uint64_t bytes) {
  if (Planted(Bug::kGrantsAddedUp)) bytes += granted_;
  if (bytes <= granted_) return;
  if (AwaitsGrant() && !queue_.empty()) granted_at_ = context_.Now();
  granted_ = bytes;
  Wake();
}

void PushLink::OnTickAck(const v1::TickAck& ack) {
  const auto unspoken = wire::ParseSegments(ack.unspoken());
  if (!unspoken.ok()) return BrokeRules(unspoken.status());
  if (absl::Status told = CheckHere(ack); !told.ok()) return BrokeRules(told);
  if (teller_.OnAck(ack.clock(), *unspoken)) return Wake();
  if (!teller_.Unanswered()) return tick_pauses_.Reset();
  const absl::Duration pause = tick_pauses_.Next(context_.random.Next());
  if (context_.Now() + pause < tick_again_) SetTickTimer(pause);
}

absl::Status PushLink::CheckHere(const v1::TickAck& ack) {
  ABSL_ASSIGN_OR_RETURN(const std::vector<wire::Mark> marks, wire::ParseMarks(ack.here()));
  if (ack.number() != ticks_) return absl::OkStatus();
  for (const wire::Mark& mark : marks) {
    const uint64_t id = SegmentLine(mark.segment, mark.line).id();
    const auto line = lines_.find(id);
    const auto then = committed_then_.find(id);
    // Only for a line that was sent here then and still is: otherwise another shard has the rest.
    if (line == lines_.end() || then == committed_then_.end()) continue;
    if (mark.number < then->second) listener_.OnLost(*this, *line->second, mark.number, then->second);
  }
  return absl::OkStatus();
}

void PushLink::OnUp() {
  sent_ = lent_upto_ = received_ = unreceived_bytes_ = parts_bytes_ = granted_ = 0;
  unreceived_.clear();
  key_encoder_.Begin(key_list_bytes());
  teller_.NewStream();
}

void PushLink::BreakOff(absl::Status why, bool surely) {
  if (Planted(Bug::kLentNeverBroken)) return;
  if (usable() && lent_upto_ > (surely ? 0 : received_)) Broken(std::move(why));
}

void PushLink::OnDown() {
  teller_.NewStream();
  if (Planted(Bug::kNotSentAgain)) return;
  for (const auto& [key, line] : lines_) {
    context_.stats.retries += line->RewindAll();
    if (Planted(Bug::kNumberedTwice)) line->ForgetLateNumbers();
    Requeue(*line);
  }
  for (auto& [id, request] : std::exchange(asked_, {})) context_.puller->OnRideLost(request);
}

}  // namespace paceline::sdk
