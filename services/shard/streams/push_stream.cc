#include "services/shard/streams/push_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "libs/base/status.h"
#include "services/shard/streams/fetch_ahead.h"
#include "services/shard/streams/take_apart.h"

namespace paceline::shard {
namespace {

// The memory behind a frame's parts, for as long as anybody needs it.
struct Buffers {
  Buffers(absl::Cord keys_in, absl::Cord values_in)
      : keys(std::move(keys_in)), values(std::move(values_in)) {}

  wire::FlatBytes keys;
  wire::FlatPieces values;  // by part
};

// A stream is granted so much at first, and its share once it pushes: an idle client keeps what it was
// granted.
constexpr uint64_t kFirstGrant = uint64_t{1} << 20;
// So many marks gather before those of one line are joined.
constexpr size_t kMarksMax = 256;

}  // namespace

// A frame is under way until the last owner of its ticket lets go of it.
class PushStream::Ticket {
 public:
  Ticket(std::shared_ptr<PushStream> stream, uint64_t frame)
      : stream_(std::move(stream)), frame_(frame), arrived_(stream_->context_.clock().Now()) {}
  ~Ticket() { stream_->FrameDone(frame_, arrived_, taken_); }
  Ticket(const Ticket&) = delete;

  // An executor begins with parts of the frame; the last one to begin counts.
  void Taken(absl::Time now) {
    const int64_t after = absl::ToInt64Nanoseconds(now - arrived_);
    int64_t known = taken_.load(std::memory_order_relaxed);
    while (after > known && !taken_.compare_exchange_weak(known, after, std::memory_order_relaxed)) {
    }
  }

 private:
  const std::shared_ptr<PushStream> stream_;
  const uint64_t frame_;
  const absl::Time arrived_;
  std::atomic<int64_t> taken_{-1};  // after its arrival, in nanoseconds; -1: it has no parts
};

void PushStream::OnFrame(absl::Cord bytes) {
  const uint64_t size = bytes.size();
  uint64_t weight = size;
  absl::StatusOr<Request> request = Decode(std::move(bytes), weight);
  std::shared_ptr<Ticket> ticket;
  if (caller_.has_value()) {
    ++frame_;
    ticket = std::make_shared<Ticket>(shared_from_this(), frame_);
    FrameBegun(weight, /*free=*/request.ok() && request->head.parts().empty() && request->keys.empty() &&
                           request->values.empty());
  }
  if (!request.ok()) {
    return Refuse(MakeRefusal(v1::Refusal::MALFORMED, std::string(request.status().message())), frame_);
  }
  if (request->head.has_hello()) return Greeted(*std::move(request));
  if (!caller_.has_value()) {
    return Refuse(
        MakeRefusal(v1::Refusal::MALFORMED, "hello: missing; the first frame of a stream is a Hello, alone"),
        frame_);
  }
  context_.probe().PushFrame(size, request->head.parts().size() / wire::kPartEntryBytes);

  const auto entries = wire::ParseParts(request->head.parts());
  const auto seals = wire::ParseSeals(request->head.tick().seals());
  if (!entries.ok() || !seals.ok()) {
    const absl::Status& bad = entries.ok() ? seals.status() : entries.status();
    return Refuse(MakeRefusal(v1::Refusal::MALFORMED, std::string(bad.message())), frame_);
  }
  const v1::PushPullRequest& head = request->head;
  const auto view = context_.view();
  // One refusal for the frame, before each part gets its own.
  const size_t parts_max =
      view->map == nullptr ? entries->size() : wire::FramePartsMax(view->map->SegmentCount());
  if (entries->size() > parts_max) {
    return Refuse(MakeRefusal(v1::Refusal::MALFORMED,
                              absl::StrCat("parts: ", entries->size(), " in one frame; at most ", parts_max,
                                           " are taken; send more frames")),
                  frame_);
  }
  if (auto refusal = NotNow(context_, *view, CatalogueVersion(head.catalogue_version()))) {
    if (!entries->empty() || !head.has_tick()) RefuseAll(*entries, head.line(), *refusal);
    if (WantsRows(head)) FailRead(head.request(), *refusal);
    ticked_without_map_ |= head.has_tick() && view->map == nullptr;
    if (view->stopping || view->map == nullptr) return;
  } else if (auto parts = TakeApart(head, request->keys, request->values, *entries, *view); parts.ok()) {
    HandOut(*std::move(parts), TableId(head.table()), ticket, ReadOf(*request, *entries));
  } else {
    const v1::Refusal invalid = MakeRefusal(v1::Refusal::INVALID, std::string(parts.status().message()));
    RefuseAll(*entries, head.line(), invalid);
    if (WantsRows(head)) FailRead(head.request(), invalid);
  }
  // A tick needs no table, so it is heard even while the list of tables is being fetched.
  if (head.has_tick()) HandOutTick(head.tick(), *seals, ticket, view->map->SegmentCount());
}

absl::StatusOr<PushStream::Request> PushStream::Decode(absl::Cord bytes, uint64_t& weight) {
  const uint64_t max = context_.options().frame_bytes_max;
  if (bytes.size() > max) {
    return absl::InvalidArgumentError(
        absl::StrCat("frame: ", bytes.size(), " bytes; at most ", max, " are taken; send smaller frames"));
  }
  ABSL_ASSIGN_OR_RETURN(Request request, wire::Decode<v1::PushPullRequest>(bytes));
  notes_ = nullptr;
  if (request.head.filters().empty()) return request;
  // At once, whatever becomes of the frame: later ones name its keys.
  const size_t coded = request.BlobBytes();
  ABSL_ASSIGN_OR_RETURN(notes_, filters_.Decode(request));
  weight = filter::Weight(bytes.size(), coded, request.BlobBytes());
  return request;
}

void PushStream::Greeted(Request request) {
  const v1::Hello hello = request.head.hello();
  v1::Welcome welcome;
  if (auto refusal = NotAlone(request)) return Refuse(*std::move(refusal), frame_);
  if (auto refusal = Greet(context_, hello, &caller_, &welcome)) return Refuse(*std::move(refusal), frame_);
  filters_.Agree(hello, welcome);
  greeted_ = true;
  {
    MutexLock lock(&mutex_);
    if (port_ == nullptr) return;  // broken meanwhile: it would never end
    fixed_ = welcome.feature_level() < 2;
    window_ = context_.streams().Begin(fixed_ ? UINT64_MAX : kFirstGrant);
    // A window that never grows must hold a frame, whatever others hold.
    const uint64_t least = fixed_ ? context_.options().frame_bytes_max : 0;
    if (window_ < least) context_.streams().Overrun(least - window_);
    window_ = std::max(window_, least);
    granted_ = limit_ = window_;
    welcome.set_window_bytes(window_);
    *reply_.mutable_welcome() = welcome;
    dirty_ = true;
  }
  Kick();
  AskWhetherOver(context_, *caller_, [self = shared_from_this()](const std::optional<v1::Refusal>& over) {
    if (over.has_value()) self->Refuse(*over, 0);
  });
}

absl::StatusOr<std::vector<PushStream::RoutedPart>> PushStream::TakeApart(
    const v1::PushPullRequest& head, absl::Cord keys, absl::Cord values,
    const std::vector<wire::PartEntry>& entries, const View& view) {
  std::vector<RoutedPart> parts;
  if (entries.empty() && keys.empty() && values.empty()) return parts;
  ABSL_ASSIGN_OR_RETURN(const Line line, LineOf(head.line()));
  ABSL_ASSIGN_OR_RETURN(const log::KeyForm form, FormOf(head.key_form()));
  ABSL_RETURN_IF_ERROR(CheckFilters(head.filters()));
  const auto buffers = std::make_shared<Buffers>(keys, values);
  ABSL_ASSIGN_OR_RETURN(const std::vector<Slice> slices,
                        SliceKeys(entries, form, buffers->keys.view(), view.map->SegmentCount()));
  if (WantsRows(head)) ABSL_RETURN_IF_ERROR(CheckOnceEach(slices, view.map->SegmentCount()));
  std::shared_ptr<const log::TableInfo> table;
  uint32_t row_bytes = 0;
  if (!keys.empty() || !values.empty()) {  // empty parts need no table
    ABSL_ASSIGN_OR_RETURN(table, view.catalogue->Find(TableId(head.table()), caller_->job));
    ABSL_RETURN_IF_ERROR(CheckWidth(slices, table->schema.dim, buffers->values.size(), table->name));
    row_bytes = table->schema.dim * sizeof(float);
  }
  const bool keys_known =
      table != nullptr && KnownGood(notes_.get(), *table, form, slices, view.map->ring_bits());
  parts.reserve(slices.size());
  const std::shared_ptr<log::AckSink> acks = shared_from_this();
  for (const Slice& slice : slices) {
    log::Update update{.session = caller_->session,
                       .line = line,
                       .number = slice.number,
                       .table = slice.count == 0 ? TableId() : table->id,
                       .clock = head.clock(),
                       .form = form,
                       .count = slice.count,
                       .keys = slice.keys,
                       .values = buffers->values.Next(slice.rows * row_bytes),
                       .owner = buffers};
    parts.push_back({.segment = slice.segment,
                     .sender_epoch = slice.sender_epoch,
                     .part = {.update = std::move(update),
                              .job = caller_->job,
                              .table = slice.count == 0 ? nullptr : table,
                              .acks = acks,
                              .keys_known = keys_known},
                     .index = parts.size()});
  }
  return parts;
}

void PushStream::HandOut(std::vector<RoutedPart> parts, TableId table, const std::shared_ptr<Ticket>& ticket,
                         const std::shared_ptr<PullOp>& read) {
  const auto segment_of = [](const RoutedPart& part) { return part.segment; };
  uint64_t bytes = 0;
  for (const RoutedPart& part : parts) bytes += part.part.update.keys.size() + part.part.update.values.size();
  context_.Deal(
      std::move(parts), segment_of,
      [this, ticket, read, frame = frame_, table](const std::vector<RoutedPart>& mine) {
        const absl::Time now = context_.clock().Now();
        ticket->Taken(now);
        FetchAhead ahead(context_, table, mine.front().part.update.form);
        for (size_t i = 0; i < mine.size(); ++i) {
          const RoutedPart& part = mine[i];
          ahead.Before(
              i, mine.size(), [&](size_t n) { return mine[n].segment; },
              [&](size_t n) { return mine[n].part.update.keys; });
          SegmentHost& host = context_.host(part.segment);
          auto refusal = IsStranger(host, *caller_) ? RefuseStranger(part.part.update, part.segment)
                                                    : host.Take(part.part, part.sender_epoch, now);
          if (read != nullptr)
            refusal.has_value() ? read->Refused(part.index, *refusal) : read->Serve(part.index, now);
          if (refusal.has_value()) Refuse(*std::move(refusal), frame);
        }
        for (const RoutedPart& part : mine) context_.host(part.segment).Flush();
      },
      bytes);
}

std::optional<v1::Refusal> PushStream::RefuseStranger(const log::Update& update, SegmentId segment) const {
  v1::Refusal refusal = StrangersRefusal(*caller_);
  refusal.set_segment(segment.v);
  refusal.set_line(static_cast<v1::Line>(update.line));
  refusal.set_number(update.number);
  return refusal;
}

void PushStream::HandOutTick(const v1::Tick& tick, const std::vector<wire::Seal>& seals,
                             const std::shared_ptr<Ticket>& ticket, uint32_t segments) {
  struct Round {
    Clock clock;
    bool anew;
    std::vector<Said> said;  // by segment
    // By segment; each writes its own, the last of them answers.
    std::vector<uint8_t> unspoken;
    std::vector<Behind> behind;
    uint64_t number;
  };
  auto round = std::make_shared<Round>();
  round->clock = tick.clock();
  round->anew = tick.anew();
  round->said.resize(segments);
  round->unspoken.resize(segments);
  round->behind.resize(segments);
  round->number = tick.number();
  for (const wire::Seal& seal : seals) {
    for (uint64_t s = seal.segment.v; s < std::min<uint64_t>(uint64_t{seal.segment.v} + seal.run, segments);
         ++s) {
      round->said[s].counts[static_cast<size_t>(seal.line) - 1] = seal.number;
    }
  }
  if (named_.empty()) {
    // The client takes what it named before there was a map for told, as below.
    Named unknown;
    if (ticked_without_map_) unknown.ever = {true, true};
    named_.resize(segments, unknown);
  }
  context_.ForEachOnRing(
      [this, ticket, round](SegmentId segment, SegmentHost* host) {
        const uint32_t s = segment.v;
        if (round->anew) named_[s] = {};
        // The newest map may name this shard primary, and the client may know that before this shard does.
        bool spoken = true;
        if (host != nullptr && host->primary() != nullptr) {
          spoken = Speaks(*host, round->said[s], round->clock);
          if (spoken) round->behind[s] = BehindOf(*host);
        } else {
          for (size_t line = 0; line < 2; ++line) {
            // The client takes it for told. The shard knows nothing of the line until a tick names it again.
            // A later tick may leave it out: the client sent it before it knew that the earlier one did not
            // count.
            if (round->said[s].counts[line].has_value()) named_[s].ever[line] = true;
            if (named_[s].ever[line]) spoken = host == nullptr || host->follower() == nullptr;
          }
        }
        if (!spoken) round->unspoken[s] = 1;
      },
      [this, ticket, round] {
        MutexLock lock(&mutex_);
        v1::TickAck* ack = reply_.add_ticks();
        ack->set_clock(round->clock);
        ack->set_number(round->number);
        for (uint32_t s = 0; s < round->unspoken.size(); ++s) {
          if (round->unspoken[s] != 0) wire::Append(SegmentId(s), *ack->mutable_unspoken());
          for (const Line line : {Line::kArrival, Line::kAggregated}) {
            const std::optional<PartNumber> here = round->behind[s][static_cast<size_t>(line) - 1];
            if (!here.has_value()) continue;
            wire::Append(wire::Mark{.segment = SegmentId(s), .line = line, .number = *here},
                         *ack->mutable_here());
          }
        }
        dirty_ = true;
      });
}

bool PushStream::Speaks(SegmentHost& host, const Said& said, Clock clock) {
  Named& named = named_[host.id().v];
  if (named.tenure != host.tenure()) {
    named.tenure = host.tenure();
    named.anew = {};
  }
  for (size_t line = 0; line < 2; ++line) {
    if (!said.counts[line].has_value()) continue;
    named.counts.counts[line] = *said.counts[line];
    named.ever[line] = named.anew[line] = true;
  }
  // Neither this tick nor an earlier one on this stream named it in this tenure: parts of it may have died
  // with another stream. A client that does not know of the tenure names only the line that has changed; the
  // shard knows nothing of the other one.
  const bool spoken = named.anew != std::array<bool, 2>{} && named.anew == named.ever;
  if (!spoken && !Planted(Bug::kUnnamedSealed)) return false;
  const log::Segment::SessionState* session = host.primary()->segment().FindSession(caller_->session);
  if (session == nullptr || session->job != caller_->job) return true;  // not open here, or of another job
  if (IsStranger(host, *caller_)) return true;  // its parts are refused, and its clock is nobody's
  host.primary()->SetNow(context_.clock().Now());
  host.primary()->Tick(caller_->session, clock, named.counts);
  host.Flush();
  return true;
}

// A client whose committed parts are lost here may have none to send, and learns of it in no other way.
PushStream::Behind PushStream::BehindOf(SegmentHost& host) const {
  Behind behind;
  const log::Segment& segment = host.primary()->segment();
  const log::Segment::SessionState* session = segment.FindSession(caller_->session);
  const bool another = session != nullptr && session->job != caller_->job;
  if (another || segment.IsClosed(caller_->session)) return behind;
  const clock::LineCounts here = host.primary()->Here(caller_->session);
  for (size_t line = 0; line < behind.size(); ++line) {
    if (here.counts[line] < named_[host.id().v].counts.counts[line]) behind[line] = here.counts[line];
  }
  return behind;
}

void PushStream::RefuseAll(const std::vector<wire::PartEntry>& entries, v1::Line line,
                           const v1::Refusal& refusal) {
  for (const wire::PartEntry& entry : entries) {
    v1::Refusal one = refusal;
    one.set_segment(entry.segment.v);
    one.set_line(line);
    one.set_number(entry.number);
    Refuse(std::move(one), frame_);
  }
  if (entries.empty()) Refuse(refusal, frame_);
}

void PushStream::Refuse(v1::Refusal refusal, uint64_t frame) {
  context_.probe().Refused(refusal.reason());
  {
    MutexLock lock(&mutex_);
    refusal.set_frame(frame);
    *reply_.add_refusals() = std::move(refusal);
    dirty_ = true;
  }
  Kick();
}

void PushStream::Committed(wire::Mark mark) {
  MutexLock lock(&mutex_);
  marks_.push_back(mark);
  // A client that reads nothing must not make them many.
  if (marks_.size() >= 2 * marks_joined_ + kMarksMax) JoinMarks();
  dirty_ = true;
}

void PushStream::JoinMarks() {
  const auto place = [](const wire::Mark& mark) { return std::pair(mark.segment, mark.line); };
  std::ranges::sort(marks_, [&](const wire::Mark& a, const wire::Mark& b) {
    return std::pair(place(a), b.number) < std::pair(place(b), a.number);  // the largest first
  });
  const auto rest = std::ranges::unique(marks_, {}, place);
  marks_.erase(rest.begin(), rest.end());
  marks_joined_ = marks_.size();
}

bool PushStream::NextFrame(absl::Cord* frame) {
  wire::Frame<v1::PushPullReply> reply;
  std::shared_ptr<world::StreamPort> done, read_on;
  {
    MutexLock lock(&mutex_);
    if (!dirty_) {
      if (finished_ && frames_.empty() && AllRowsSent()) done = port_;
    }
  }
  if (done != nullptr) done->Close(absl::OkStatus());
  {
    MutexLock lock(&mutex_);
    if (!dirty_) return false;
    reply.head.Swap(&reply_);
    reply.head.set_received(received_);
    if (!fixed_) reply.head.set_granted(granted_);
    unsaid_bytes_ = 0;
    JoinMarks();
    if (!marks_.empty()) reply.head.mutable_committed()->reserve(marks_.size() * wire::kMarkBytes);
    for (const wire::Mark& mark : marks_) wire::Append(mark, *reply.head.mutable_committed());
    marks_.clear();
    marks_joined_ = 0;
    AddRows(reply);
    dirty_ = !waiting_rows_.empty();
    if (stopped_ && !Stopped()) read_on = port_;  // answers were read
  }
  if (read_on != nullptr) read_on->ReadOn();
  *frame = wire::Encode(reply);
  return true;
}

void PushStream::OnBroken(absl::Status) {
  filters_.End();
  MutexLock lock(&mutex_);
  ended_ = true;
  port_ = nullptr;
  waiting_rows_.clear();
  if (limit_ == 0) return;  // it never began
  context_.streams().End();
  context_.streams().Free(limit_ - arrived_);
  limit_ = arrived_;
  FreeEnded();
}

}  // namespace paceline::shard
