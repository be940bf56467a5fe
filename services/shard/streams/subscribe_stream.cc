#include "services/shard/streams/subscribe_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/little_endian.h"
#include "services/shard/streams/take_apart.h"

namespace paceline::shard {
namespace {

// With so many messages waiting to be sent the shard reads no more changes.
constexpr size_t kWaitingMax = 4 * 1024;
constexpr size_t kRoundsAtOnce = 4096;  // in a frame
constexpr uint32_t kEveryMax = UINT16_MAX;
// The stream is of this level.
constexpr uint32_t kLevel = 2;

void AppendU64(uint64_t value, std::string& out) {
  char packed[sizeof(value)];
  StoreU64(value, packed);
  out.append(packed, sizeof(packed));
}

void Append(const log::SetUpdate& update, wire::Frame<v1::SubscribeUpdate>& to) {
  v1::SubscribeUpdate& head = to.head;
  head.set_table(update.table->id.v);
  wire::Append(update.certificate, *head.mutable_certificates());
  AppendU64(update.after.v, *head.mutable_after());
  AppendU64(update.set, *head.mutable_sets());
  char packed[sizeof(uint32_t)];
  StoreU32(update.known ? static_cast<uint32_t>(update.keys.size()) : wire::kChangesUnknown, packed);
  head.mutable_changes()->append(packed, sizeof(packed));
  to.keys.Append(absl::string_view(reinterpret_cast<const char*>(update.keys.data()),
                                   update.keys.size() * sizeof(uint64_t)));
  to.values.Append(update.values);
  if (update.left_out.empty()) return;
  head.mutable_left_out()->append(reinterpret_cast<const char*>(update.left_out.data()),
                                  update.left_out.size() * sizeof(uint64_t));
  StoreU32(static_cast<uint32_t>(update.left_out.size()), packed);
  const size_t before = head.certificates().size() / wire::kCertificateBytes - 1;  // which may have none
  head.mutable_left_out_counts()->resize(before * sizeof(packed), '\0');
  head.mutable_left_out_counts()->append(packed, sizeof(packed));
}

uint64_t BytesOf(const log::SetUpdate& update) {
  return update.values.size() + update.left_out.size() * sizeof(uint64_t);
}

uint64_t BytesOf(const wire::Frame<v1::SubscribeUpdate>& frame) {
  return frame.BlobBytes() + frame.head.left_out().size();
}

}  // namespace

SubscribeStream::SubscribeStream(Context& context)
    : ServedStream(context, "subscribe"), id_(context.NewStreamId()), confirmed_at_(context.clock().Now()) {}

bool SubscribeStream::TakesFrame() {
  MutexLock lock(&mutex_);
  stopped_ = waiting_.size() >= kWaitingMax;
  return !stopped_;
}

void SubscribeStream::OnFrame(absl::Cord bytes) {
  if (gone()) return;
  if (bytes.size() > context_.options().frame_bytes_max) {
    return Refuse(
        MakeRefusal(v1::Refusal::MALFORMED,
                    absl::StrCat("frame: ", bytes.size(), " bytes; at most ",
                                 context_.options().frame_bytes_max, " are taken; send smaller frames")));
  }
  auto request = wire::Decode<v1::SubscribeRequest>(bytes);
  if (!request.ok()) {
    return Refuse(MakeRefusal(v1::Refusal::MALFORMED, std::string(request.status().message())));
  }
  // At level 1 this was a call with one request, which was not served.
  const bool level_one = request->head.hello().feature_level() < kLevel;
  if (!caller_.has_value() && level_one) {
    return Close(absl::UnimplementedError("Subscribe is served from feature level 2 on; use Pull"));
  }
  if (request->head.has_hello()) return Greeted(*std::move(request));
  if (request->head.confirmed() != 0) Confirmed(request->head.confirmed());
  if (!request->head.reading().empty()) TakeReadings(request->head);
  if (request->head.set() != 0) ChangeSets(*std::move(request));
}

void SubscribeStream::Greeted(Request request) {
  const v1::Hello hello = request.head.hello();
  if (auto refusal = NotAlone(request)) return Refuse(*std::move(refusal));
  v1::SubscribeUpdate welcome;
  if (auto refusal = Greet(context_, hello, &caller_, welcome.mutable_welcome())) {
    return Refuse(*std::move(refusal));
  }
  greeted_ = true;
  Say(std::move(welcome));
  AskWhetherOver(context_, *caller_, [self = shared_from_this()](const std::optional<v1::Refusal>& over) {
    if (over.has_value()) self->Refuse(*over);
  });
}

void SubscribeStream::Confirmed(uint64_t number) {
  std::vector<Sent> confirmed;  // gives the room back, outside the lock
  std::set<SegmentId> visit;
  {
    MutexLock lock(&mutex_);
    while (!sent_.empty() && sent_.front().number <= number) {
      confirmed.push_back(std::move(sent_.front()));
      sent_.pop_front();
    }
    confirmed_at_ = context_.clock().Now();
    if (!confirmed.empty() && std::exchange(wants_room_, false)) visit = segments_;
  }
  confirmed.clear();
  Visit(visit);
}

void SubscribeStream::ChangeSets(Request request) {
  const v1::SubscribeRequest& head = request.head;
  const auto entries = wire::ParseParts(head.parts());
  if (!entries.ok()) {
    return Refuse(MakeRefusal(v1::Refusal::MALFORMED, std::string(entries.status().message())));
  }
  if (head.set() <= set_) {
    return Refuse(MakeRefusal(v1::Refusal::MALFORMED, absl::StrCat("set: ", head.set(), " after ", set_,
                                                                   "; each is larger than those before it")));
  }
  set_ = head.set();
  const auto refuse = [&](const v1::Refusal& refusal) {
    for (const wire::PartEntry& entry : *entries)
      RefuseSet(refusal, entry.segment, TableId(head.table()), set_);
  };
  const auto view = context_.view();
  if (auto refusal = NotNow(context_, *view, CatalogueVersion(head.catalogue_version()))) {
    return refuse(*std::move(refusal));
  }
  const auto table = view->catalogue->Find(TableId(head.table()), caller_->job);
  if (!table.ok()) {
    return refuse(MakeRefusal(v1::Refusal::INVALID, std::string(table.status().message())));
  }
  struct Keys {
    explicit Keys(absl::Cord cord) : bytes(std::move(cord)) {}
    wire::FlatBytes bytes;
  };
  const auto keys = std::make_shared<const Keys>(std::move(request.keys));
  auto slices = SliceKeys(*entries, log::KeyForm::kKeys, keys->bytes.view(), view->map->SegmentCount());
  absl::Status fits = slices.status();
  if (fits.ok()) fits = CheckOnceEach(*slices, view->map->SegmentCount());
  if (!fits.ok()) return refuse(MakeRefusal(v1::Refusal::INVALID, std::string(fits.message())));
  {
    MutexLock lock(&mutex_);
    for (const Slice& slice : *slices) segments_.insert(slice.segment);
  }
  const auto change = [self = shared_from_this(), table = *table, set = head.set(),
                       every = std::min(head.every(), kEveryMax), budget = head.budget(),
                       leave = head.leave(), keys](const std::vector<Slice>& mine) {
    for (const Slice& slice : mine) {
      SegmentHost& host = self->context_.host(slice.segment);
      std::optional<v1::Refusal> refusal;
      if (IsStranger(host, *self->caller_)) {
        refusal = StrangersRefusal(*self->caller_);
      } else if (!self->gone()) {
        refusal = host.Subscribe({.session = self->caller_->session,
                                  .job = self->caller_->job,
                                  .table = table,
                                  .set = set,
                                  .every = every,
                                  .budget = budget,
                                  .leave = leave,
                                  .keys = slice.keys,
                                  .stream = self->id_,
                                  .sink = self},
                                 slice.sender_epoch);
      }
      if (refusal.has_value()) self->RefuseSet(*std::move(refusal), slice.segment, table->id, set);
    }
  };
  context_.Deal(
      *slices, [](const Slice& slice) { return slice.segment; }, change);
}

void SubscribeStream::TakeReadings(const v1::SubscribeRequest& head) {
  if (!caller_.has_value()) {
    return Refuse(MakeRefusal(v1::Refusal::MALFORMED, "reading: before the hello; say hello first"));
  }
  const auto readings = wire::ParseReadings(head.reading());
  if (!readings.ok()) {
    return Refuse(MakeRefusal(v1::Refusal::MALFORMED, std::string(readings.status().message())));
  }
  const auto view = context_.view();
  if (view->map != nullptr && readings->size() > view->map->SegmentCount()) {
    return Refuse(
        MakeRefusal(v1::Refusal::MALFORMED,
                    absl::StrCat("reading: ", readings->size(), " entries in one frame; the ring has ",
                                 view->map->SegmentCount(), " segments and a frame one entry for each")));
  }
  // Not known yet, as when this shard has just started: the client asks again.
  if (NotNow(context_, *view, CatalogueVersion()).has_value()) return;
  for (const wire::Reading& reading : *readings) {
    if (reading.segment.v < view->map->SegmentCount()) continue;
    return Refuse(MakeRefusal(
        v1::Refusal::MALFORMED,
        absl::StrCat("reading: segment ", reading.segment.v, "; the ring has ", view->map->SegmentCount())));
  }
  context_.Deal(
      *readings, [](const wire::Reading& reading) { return reading.segment; },
      [self = shared_from_this(), beat = head.beat()](const std::vector<wire::Reading>& mine) {
        const absl::Time now = self->context_.clock().Now();
        for (const wire::Reading& reading : mine) {
          SegmentHost& host = self->context_.host(reading.segment);
          if (IsStranger(host, *self->caller_) || self->gone()) continue;
          host.TakeReading({.session = self->caller_->session,
                            .job = self->caller_->job,
                            .reading = reading,
                            .beat = beat,
                            .stream = self->id_,
                            .sink = self},
                           now);
        }
      });
}

void SubscribeStream::Told(const wire::Round& round) {
  {
    MutexLock lock(&mutex_);
    if (gone()) return;
    Wait(round);
  }
  KickSoon();
}

void SubscribeStream::Visit(const std::set<SegmentId>& segments) {
  if (segments.empty()) return;
  context_.Deal(
      segments, [](SegmentId segment) { return segment; },
      [self = shared_from_this()](const std::vector<SegmentId>& mine) {
        for (const SegmentId segment : mine) {
          SegmentHost& host = self->context_.host(segment);
          if (host.primary() != nullptr) host.primary()->TellSubscribers();
        }
      });
}

std::shared_ptr<const void> SubscribeStream::Reserve(uint64_t bytes) {
  struct Room {
    std::shared_ptr<const ReplyBudget::Share> here, of_all;
  };
  Room room{.here = unconfirmed_->Take(bytes), .of_all = nullptr};
  if (room.here != nullptr) room.of_all = context_.replies().Take(bytes);
  if (room.of_all != nullptr) return std::make_shared<const Room>(std::move(room));
  MutexLock lock(&mutex_);
  wants_room_ = true;
  return nullptr;
}

void SubscribeStream::Updated(log::SetUpdate update) {
  context_.probe().SetUpdated(update.keys.size(), update.values.size(), update.known);
  {
    MutexLock lock(&mutex_);
    if (gone()) return;
    if (sent_.empty() && waiting_.empty()) confirmed_at_ = context_.clock().Now();
    Wait(std::move(update));
  }
  KickSoon();
}

void SubscribeStream::Ended(SegmentId segment, TableId table, v1::Refusal refusal) {
  RefuseSet(std::move(refusal), segment, table, /*set=*/0);
}

void SubscribeStream::RefuseSet(v1::Refusal refusal, SegmentId segment, TableId table, uint64_t set) {
  refusal.set_segment(segment.v);
  refusal.set_number(set);
  Refuse(std::move(refusal), table);
}

void SubscribeStream::Refuse(v1::Refusal refusal, TableId table) {
  context_.probe().Refused(refusal.reason());
  v1::SubscribeUpdate update;
  update.set_table(table.v);
  *update.add_refusals() = std::move(refusal);
  Say(std::move(update));
}

void SubscribeStream::Say(v1::SubscribeUpdate update) {
  {
    MutexLock lock(&mutex_);
    if (gone()) return;
    Wait(std::move(update));
  }
  KickSoon();
}

void SubscribeStream::Wait(Waiting what) {
  if (waiting_.empty()) read_at_ = context_.clock().Now();
  waiting_.push_back(std::move(what));
}

SubscribeStream::Update SubscribeStream::TakeNext() {
  Update frame;
  if (auto* said = std::get_if<v1::SubscribeUpdate>(&waiting_.front())) {
    frame.head = std::move(*said);
    waiting_.pop_front();
    return frame;
  }
  if (std::holds_alternative<wire::Round>(waiting_.front())) {
    for (size_t i = 0; i < kRoundsAtOnce && !waiting_.empty(); ++i) {
      if (!std::holds_alternative<wire::Round>(waiting_.front())) break;
      wire::Append(std::get<wire::Round>(waiting_.front()), *frame.head.mutable_rounds());
      waiting_.pop_front();
    }
    return frame;
  }
  const TableId table = std::get<log::SetUpdate>(waiting_.front()).table->id;
  Sent sent{.number = ++number_, .rooms = {}};
  frame.head.set_number(sent.number);
  std::deque<Waiting> others;  // what is of another table may wait
  while (!waiting_.empty()) {
    auto* update = std::get_if<log::SetUpdate>(&waiting_.front());
    if (update == nullptr) break;
    if (update->table->id != table) {
      others.push_back(std::move(waiting_.front()));
    } else if (BytesOf(frame) > 0 && BytesOf(frame) + BytesOf(*update) > log::Subscriptions::kBytesMax) {
      break;
    } else {
      Append(*update, frame);
      sent.rooms.push_back(std::move(update->room));
    }
    waiting_.pop_front();
  }
  while (!others.empty()) {
    waiting_.push_front(std::move(others.back()));
    others.pop_back();
  }
  sent_.push_back(std::move(sent));
  return frame;
}

bool SubscribeStream::NextFrame(absl::Cord* frame) {
  std::shared_ptr<world::StreamPort> done, read_on;
  bool some = false;
  {
    MutexLock lock(&mutex_);
    if (gone()) return false;
    if (!waiting_.empty()) {
      *frame = wire::Encode(TakeNext());
      some = true;
      read_at_ = context_.clock().Now();
      if (stopped_ && waiting_.size() < kWaitingMax) read_on = port_;
    } else if (finished_) {
      ended_ = true;
      done = port_;
    }
  }
  if (read_on != nullptr) read_on->ReadOn();
  if (done != nullptr) done->Close(absl::OkStatus());
  return some;
}

void SubscribeStream::Close(absl::Status why) {
  std::shared_ptr<world::StreamPort> port;
  {
    MutexLock lock(&mutex_);
    if (ended_.exchange(true)) return;
    port = port_;
  }
  if (port != nullptr) port->Close(std::move(why));
}

bool SubscribeStream::Unread(absl::Time now) const {
  const absl::Duration most = context_.options().unread_timeout;
  return (unconfirmed_->taken() > 0 && now - confirmed_at_ > most) ||
         (!waiting_.empty() && now - read_at_ > most);
}

void SubscribeStream::OnBroken(absl::Status) {
  decltype(waiting_) waiting;
  decltype(sent_) sent;
  std::set<SegmentId> segments;
  {
    MutexLock lock(&mutex_);
    ended_ = true;
    port_ = nullptr;
    waiting.swap(waiting_);
    sent.swap(sent_);
    segments.swap(segments_);
  }
  Visit(segments);
}

}  // namespace paceline::shard
