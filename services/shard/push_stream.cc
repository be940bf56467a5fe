#include "services/shard/push_stream.h"

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "libs/base/status.h"
#include "services/shard/take_apart.h"

namespace paceline::shard {
namespace {

// The memory behind a frame's parts, for as long as anybody needs it.
struct Buffers {
  wire::FlatBytes keys;
  wire::FlatBytes values;
};

// Refusals, or answers to ticks, that wait to be read. A client that lets more gather does not read at all.
constexpr int kRepliesMax = 64 * 1024;

}  // namespace

class PushStream::Ticket {
 public:
  Ticket(std::shared_ptr<PushStream> stream, uint64_t bytes) : stream_(std::move(stream)), bytes_(bytes) {}
  ~Ticket() { stream_->FrameDone(bytes_); }
  Ticket(const Ticket&) = delete;

 private:
  const std::shared_ptr<PushStream> stream_;
  const uint64_t bytes_;
};

PushStream::PushStream(Shard& shard) : shard_(shard) {
  shard_.probe().StreamOpened("push");
}
PushStream::~PushStream() {
  shard_.probe().StreamClosed("push");
}

void PushStream::Attach(std::shared_ptr<world::StreamPort> port) {
  absl::MutexLock lock(&mutex_);
  port_ = std::move(port);
}

void PushStream::OnFrame(absl::Cord bytes) {
  const uint64_t size = bytes.size();
  std::shared_ptr<Ticket> ticket;
  if (caller_.has_value()) {
    ++frame_;
    ticket = std::make_shared<Ticket>(shared_from_this(), size);
    if (!FrameBegun(size)) return;
  }
  if (size > shard_.options().frame_bytes_max) {
    return Refuse(MakeRefusal(v1::Refusal::MALFORMED, absl::StrCat("frame: ", size, " bytes; at most ",
                                                                   shard_.options().frame_bytes_max,
                                                                   " are taken; send smaller frames")),
                  frame_);
  }
  absl::StatusOr<Request> request = wire::Decode<v1::PushRequest>(bytes);
  if (!request.ok()) {
    return Refuse(MakeRefusal(v1::Refusal::MALFORMED, std::string(request.status().message())), frame_);
  }
  if (request->head.has_hello()) return Greeted(request->head.hello());
  if (!caller_.has_value()) {
    return Refuse(
        MakeRefusal(v1::Refusal::MALFORMED, "hello: missing; the first frame of a stream is a Hello, alone"),
        frame_);
  }
  shard_.probe().PushFrame(size, request->head.parts().size() / wire::kPartEntryBytes);

  const auto entries = wire::ParseParts(request->head.parts());
  const auto seals = wire::ParseSeals(request->head.tick().seals());
  if (!entries.ok() || !seals.ok()) {
    const absl::Status& bad = entries.ok() ? seals.status() : entries.status();
    return Refuse(MakeRefusal(v1::Refusal::MALFORMED, std::string(bad.message())), frame_);
  }
  const v1::PushRequest& head = request->head;
  const auto view = shard_.view();
  if (auto refusal = NotNow(shard_, *view, CatalogueVersion(head.catalogue_version()))) {
    if (!entries->empty() || !head.has_tick()) RefuseAll(*entries, head.line(), *refusal);
    if (view->stopping || view->map == nullptr) return;  // this stream is about to end
  } else if (auto parts = TakeApart(head, request->keys, request->values, *entries, *view); parts.ok()) {
    HandOut(*std::move(parts), ticket);
  } else {
    RefuseAll(*entries, head.line(),
              MakeRefusal(v1::Refusal::INVALID, std::string(parts.status().message())));
  }
  // A tick needs no table, so it is heard even while the list of tables is being fetched.
  if (head.has_tick()) HandOutTick(head.tick(), *seals, ticket, view->map->SegmentCount());
}

void PushStream::Greeted(const v1::Hello& hello) {
  v1::Welcome welcome;
  if (auto refusal = Greet(shard_, hello, &caller_, &welcome)) return Refuse(*std::move(refusal), frame_);
  {
    absl::MutexLock lock(&mutex_);
    *reply_.mutable_welcome() = welcome;
    dirty_ = true;
  }
  Kick();
}

absl::StatusOr<std::vector<PushStream::RoutedPart>> PushStream::TakeApart(
    const v1::PushRequest& head, absl::Cord keys, absl::Cord values,
    const std::vector<wire::PartEntry>& entries, const Shard::View& view) {
  std::vector<RoutedPart> parts;
  if (entries.empty() && keys.empty() && values.empty()) return parts;
  if (head.line() != v1::LINE_ARRIVAL) {
    return absl::InvalidArgumentError(
        absl::StrCat("line: ", static_cast<int>(head.line()),
                     "; expected 1 (on arrival): aggregated tables are not served "
                     "at feature level ",
                     kFeatureLevel));
  }
  ABSL_ASSIGN_OR_RETURN(const log::KeyForm form, FormOf(head.key_form()));
  ABSL_RETURN_IF_ERROR(CheckFilters(head.filters()));
  const auto buffers = std::shared_ptr<Buffers>(new Buffers{wire::FlatBytes(keys), wire::FlatBytes(values)});
  ABSL_ASSIGN_OR_RETURN(const std::vector<Slice> slices,
                        SliceKeys(entries, form, buffers->keys.view(), view.map->SegmentCount()));
  std::shared_ptr<const log::TableInfo> table;
  uint32_t row_bytes = 0;
  if (!keys.empty() || !values.empty()) {  // empty parts need no table
    ABSL_ASSIGN_OR_RETURN(table, view.catalogue->Find(TableId(head.table()), caller_->job));
    ABSL_RETURN_IF_ERROR(CheckWidth(slices, table->schema.dim, buffers->values.view(), table->name));
    row_bytes = table->schema.dim * sizeof(float);
  }
  parts.reserve(slices.size());
  for (const Slice& slice : slices) {
    log::Update update{
        .session = caller_->session,
        .line = Line::kArrival,
        .number = slice.number,
        .table = slice.count == 0 ? TableId() : table->id,
        .clock = head.clock(),
        .form = form,
        .count = slice.count,
        .keys = slice.keys,
        .values = buffers->values.view().substr(slice.first_row * row_bytes, slice.rows * row_bytes),
        .owner = buffers};
    parts.push_back({.segment = slice.segment,
                     .sender_epoch = slice.sender_epoch,
                     .part = {.update = std::move(update),
                              .job = caller_->job,
                              .table = slice.count == 0 ? nullptr : table,
                              .acks = shared_from_this()}});
  }
  return parts;
}

void PushStream::HandOut(std::vector<RoutedPart> parts, const std::shared_ptr<Ticket>& ticket) {
  std::vector<std::vector<RoutedPart>> by_executor(shard_.executor_count());
  for (RoutedPart& part : parts) by_executor[shard_.ExecutorOf(part.segment)].push_back(std::move(part));
  for (size_t e = 0; e < by_executor.size(); ++e) {
    if (by_executor[e].empty()) continue;
    shard_.executor(e).Run([this, ticket, frame = frame_, mine = std::move(by_executor[e])] {
      const absl::Time now = shard_.clock().Now();
      for (const RoutedPart& part : mine) {
        auto refusal = shard_.host(part.segment).Take(part.part, part.sender_epoch, now);
        if (refusal.has_value()) Refuse(*std::move(refusal), frame);
      }
    });
  }
}

void PushStream::HandOutTick(const v1::Tick& tick, const std::vector<wire::Seal>& seals,
                             const std::shared_ptr<Ticket>& ticket, uint32_t segments) {
  struct Round {
    Clock clock;
    std::vector<Said> said;         // by segment
    std::vector<uint8_t> unspoken;  // by segment; each writes its own, the last of them answers
  };
  auto round = std::make_shared<Round>();
  round->clock = tick.clock();
  round->said.resize(segments);
  round->unspoken.resize(segments);
  for (const wire::Seal& seal : seals) {
    for (uint64_t s = seal.segment.v; s < std::min<uint64_t>(uint64_t{seal.segment.v} + seal.run, segments);
         ++s) {
      round->said[s].counts[static_cast<size_t>(seal.line) - 1] = seal.number;
    }
  }
  if (named_.empty()) named_.resize(segments);
  shard_.ForEachSegment(
      [this, ticket, round](SegmentHost& host) {
        const uint32_t s = host.id().v;
        if (host.primary() != nullptr && !Speaks(host, round->said[s], round->clock)) round->unspoken[s] = 1;
      },
      [this, ticket, round] {
        absl::MutexLock lock(&mutex_);
        v1::TickAck* ack = reply_.add_ticks();
        ack->set_clock(round->clock);
        for (uint32_t s = 0; s < round->unspoken.size(); ++s) {
          if (round->unspoken[s] != 0) wire::Append(SegmentId(s), *ack->mutable_unspoken());
        }
        dirty_ = true;
      });
}

bool PushStream::Speaks(SegmentHost& host, const Said& said, Clock clock) {
  Named& named = named_[host.id().v];
  for (const Line line : {Line::kArrival, Line::kAggregated}) {
    const std::optional<PartNumber>& count = said.counts[static_cast<size_t>(line) - 1];
    if (!count.has_value()) continue;
    if (named.tenure != host.tenure()) named = {.tenure = host.tenure(), .counts = {}};
    named.counts.At(line) = *count;
  }
  // Not named by this tick, nor earlier on this stream in this tenure: parts of it may have died with another
  // stream.
  if (named.tenure != host.tenure() && !Planted(Bug::kUnnamedSealed)) return false;
  host.primary()->SetNow(shard_.clock().Now());
  host.primary()->Tick(caller_->session, clock, named.counts);
  return true;
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
  shard_.probe().Refused(refusal.reason());
  {
    absl::MutexLock lock(&mutex_);
    refusal.set_frame(frame);
    *reply_.add_refusals() = std::move(refusal);
    dirty_ = true;
  }
  Kick();
}

void PushStream::Committed(wire::Mark mark) {
  absl::MutexLock lock(&mutex_);
  PartNumber& upto = marks_[{mark.segment, mark.line}];
  upto = std::max(upto, mark.number);
  dirty_ = true;
}

bool PushStream::FrameBegun(uint64_t bytes) {
  std::shared_ptr<world::StreamPort> port;
  {
    absl::MutexLock lock(&mutex_);
    ++begun_;
    bytes_under_way_ += bytes;
    // One frame more than the window is fair: the client may not have heard of the last one's end.
    const ShardOptions& options = shard_.options();
    const bool over = bytes_under_way_ > options.window_bytes + options.frame_bytes_max;
    const bool unread = reply_.refusals_size() >= kRepliesMax || reply_.ticks_size() >= kRepliesMax;
    if (!over && !unread) return true;
    port = port_;
  }
  if (port != nullptr) {
    port->Close(absl::ResourceExhaustedError(absl::StrCat(
        "push: more than the window of ", shard_.options().window_bytes, " bytes is under way, or ",
        kRepliesMax, " answers wait to be read; keep to Welcome.window_bytes and read replies")));
  }
  return false;
}

void PushStream::FrameDone(uint64_t bytes) {
  {
    absl::MutexLock lock(&mutex_);
    bytes_under_way_ -= bytes;
    ++received_;
    dirty_ = true;
  }
  Kick();
}

void PushStream::Kick() {
  std::shared_ptr<world::StreamPort> port;
  {
    absl::MutexLock lock(&mutex_);
    port = port_;
  }
  if (port != nullptr) port->Kick();
}

bool PushStream::NextFrame(absl::Cord* frame) {
  v1::PushReply reply;
  std::shared_ptr<world::StreamPort> done;
  {
    absl::MutexLock lock(&mutex_);
    if (!dirty_) {
      if (finished_ && received_ == begun_) done = port_;
    }
  }
  if (done != nullptr) done->Close(absl::OkStatus());
  {
    absl::MutexLock lock(&mutex_);
    if (!dirty_) return false;
    dirty_ = false;
    reply.Swap(&reply_);
    reply.set_received(received_);
    for (const auto& [where, number] : marks_) {
      wire::Append(wire::Mark{.segment = where.first, .line = where.second, .number = number},
                   *reply.mutable_committed());
    }
    marks_.clear();
  }
  *frame = wire::JoinFrame(reply, {}, {});
  return true;
}

void PushStream::OnFinished() {
  {
    absl::MutexLock lock(&mutex_);
    finished_ = true;
  }
  Kick();
}

void PushStream::OnBroken(absl::Status) {
  absl::MutexLock lock(&mutex_);
  port_ = nullptr;
}

}  // namespace paceline::shard
