#include "services/shard/streams/pull_op.h"

#include <algorithm>
#include <cstring>
#include <ranges>

#include "absl/strings/str_cat.h"
#include "libs/base/little_endian.h"
#include "libs/base/status.h"
#include "libs/clock/consistency.h"
#include "libs/log/keys.h"
#include "libs/wire/partial.h"
#include "services/shard/streams/fetch_ahead.h"
#include "services/shard/streams/stream_filters.h"

namespace paceline::shard {
namespace {

// Of keys and values: half of it takes much longer than to wake the helper.
constexpr uint64_t kSharedAmongOthers = uint64_t{384} << 10;

}  // namespace

PullOp::PullOp(std::shared_ptr<PullReplies> replies, Context& context, wire::Frame<v1::PullRequest> request,
               Caller caller)
    : replies_(std::move(replies)),
      context_(context),
      head_(std::move(request.head)),
      keys_(std::move(request.keys)),
      caller_(caller),
      start_(context_.clock().Now()) {}

void PullOp::Start(bool alone, filter::ListNotes* notes) {
  if (!StartHeld(notes)) return;
  slices_.empty() ? Send() : HandOut(alone);
}

bool PullOp::StartHeld(filter::ListNotes* notes) {
  const auto view = context_.view();
  if (auto refusal = NotNow(context_, *view, CatalogueVersion(head_.catalogue_version()))) {
    replies_->Fail(head_.request(), *std::move(refusal));
    return false;
  }
  const auto entries = wire::ParseParts(head_.parts());
  if (!entries.ok()) {
    replies_->Fail(head_.request(),
                   MakeRefusal(v1::Refusal::MALFORMED, std::string(entries.status().message())));
    return false;
  }
  if (absl::Status status = Prepare(*view, *entries, notes); !status.ok()) {
    const auto reason = status.code() == absl::StatusCode::kResourceExhausted ? v1::Refusal::OVER_BUDGET
                                                                              : v1::Refusal::INVALID;
    v1::Refusal refusal = MakeRefusal(reason, std::string(status.message()));
    if (reason == v1::Refusal::OVER_BUDGET) refusal.set_retry_after_ms(20);
    replies_->Fail(head_.request(), std::move(refusal));
    return false;
  }
  left_ = slices_.size();
  return true;
}

void PullOp::Serve(size_t part, absl::Time now) {
  const int64_t taken = absl::ToInt64Nanoseconds(now - start_);
  int64_t known = taken_ns_.load(std::memory_order_relaxed);
  while (taken > known && !taken_ns_.compare_exchange_weak(known, taken, std::memory_order_relaxed)) {
  }
  const Slice& slice = slices_[part];
  SegmentHost& host = context_.host(slice.segment);
  if (IsStranger(host, caller_)) {
    v1::Refusal refusal = StrangersRefusal(caller_);
    refusal.set_segment(slice.segment.v);
    return Refused(part, std::move(refusal));
  }
  host.Serve(ReadOf(part), slice.sender_epoch, now);
}

absl::Status PullOp::Prepare(const View& view, const std::vector<wire::PartEntry>& entries,
                             filter::ListNotes* notes) {
  asks_changes_ = head_.key_form() == v1::KEY_FORM_CHANGES;
  const bool reduces = head_.key_form() == v1::KEY_FORM_REDUCTION;
  form_ = asks_changes_ ? log::KeyForm::kRanges : log::KeyForm::kKeys;  // pairs, as ranges are; or numbers
  if (!asks_changes_ && !reduces) {
    ABSL_ASSIGN_OR_RETURN(form_, FormOf(head_.key_form()));
  }
  ABSL_RETURN_IF_ERROR(CheckFilters(head_.key_filters()));
  ABSL_ASSIGN_OR_RETURN(filters_, filter::AppliedOf(head_.filters(), caller_.reply_filters));
  if (asks_changes_ || reduces) filters_ = {};
  ABSL_ASSIGN_OR_RETURN(table_, view.catalogue->Find(TableId(head_.table()), caller_.job));
  ABSL_ASSIGN_OR_RETURN(slices_, SliceKeys(entries, form_, keys_.view(), view.map->SegmentCount()));
  ABSL_RETURN_IF_ERROR(CheckOnceEach(slices_, view.map->SegmentCount()));
  for (const Slice& slice : slices_) {
    if (!asks_changes_ || slice.count == 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("parts: ", slice.count, " entries for segment ", slice.segment.v,
                     "; a part that asks for changes has one, an LSN and a number of rows"));
  }
  row_bytes_ = table_->schema.dim * sizeof(float);
  if (reduces) ABSL_RETURN_IF_ERROR(PrepareReduction());
  if (head_.min_clock() > 0) model_ = Probe::Model::kSsp;
  if (table_->schema.aggregated) model_ = Probe::Model::kBsp;
  const uint64_t rows = slices_.empty() ? 0 : slices_.back().first_row + slices_.back().rows;
  const size_t key_bytes = asks_changes_ ? log::kKeyBytes : 0;
  if (rows > context_.options().frame_bytes_max / (row_bytes_ + key_bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("keys: ", rows, " rows of ", row_bytes_, " bytes; a reply holds at most ",
                     context_.options().frame_bytes_max, " bytes; ask for fewer at a time"));
  }
  values_bytes_ = rows * row_bytes_;
  // A read that is parked keeps its keys too, which may have come as a few bytes: those of rows of one value,
  // or of empty ranges, are more than the rows.
  reserved_bytes_ = std::max<uint64_t>(values_bytes_ + rows * key_bytes, keys_.view().size());
  if (!replies_->Reserve(reserved_bytes_)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("pull: ", reserved_bytes_,
                     " bytes asked for; replies of this stream that wait to be read, and reads that "
                     "are parked, take too many of the ",
                     context_.options().reply_bytes_max,
                     " bytes it may have; read replies, or ask for fewer rows at a time"));
  }
  const bool names_rows = !asks_changes_ && !reduces;
  keys_known_ = names_rows && KnownGood(notes, *table_, form_, slices_, view.map->ring_bits());
  values_ = std::shared_ptr<char[]>(new char[std::max<size_t>(values_bytes_, 1)]);
  certificates_.resize(slices_.size());
  if (asks_changes_) {
    changes_.resize(slices_.size());
    changed_.resize(rows);
  }
  return absl::OkStatus();
}

absl::Status PullOp::PrepareReduction() {
  reduction_ = wire::QueryFromProto(head_.reduction());
  ABSL_RETURN_IF_ERROR(table::CheckQuery(table_->schema, *reduction_));
  for (Slice& slice : slices_) {
    if (slice.count != wire::kReductionKeys) {
      return absl::InvalidArgumentError(absl::StrCat(
          "parts: ", slice.count, " entries for segment ", slice.segment.v,
          "; a part that asks for a reduction has ", wire::kReductionKeys, ", a cursor and an epoch"));
    }
    slice.rows = 1;
    slice.first_row = static_cast<uint64_t>(&slice - slices_.data());
  }
  row_bytes_ = static_cast<uint32_t>(wire::PartialBytes(*reduction_));
  return absl::OkStatus();
}

log::Read PullOp::ReadOf(size_t part) {
  const Slice& slice = slices_[part];
  const absl::Duration asked =
      head_.timeout_ms() == 0 ? absl::InfiniteDuration() : absl::Milliseconds(head_.timeout_ms());
  std::optional<log::ChangesAsked> changes;
  if (asks_changes_) {
    changes = {.since = Lsn(LoadU64(slice.keys.data())),
               .rows_max = slice.rows,
               .count = &changes_[part],
               .keys = reinterpret_cast<std::byte*>(changed_.data() + slice.first_row)};
  }
  return {.session = caller_.session,
          .job = caller_.job,
          .table = table_,
          .form = form_,
          .keys = slice.keys,
          .keys_known = keys_known_,
          .changes = changes,
          .reduction = reduction_.has_value() ? &*reduction_ : nullptr,
          .out = reinterpret_cast<std::byte*>(values_.get() + slice.first_row * row_bytes_),
          .own = slice.number,
          .min_clock = head_.min_clock(),
          .deadline = start_ + std::min(asked, context_.options().pull_timeout_max),
          .part = part,
          .sink = shared_from_this()};
}

void PullOp::HandOut(bool alone) {
  const auto segment_of = [this](size_t part) { return slices_[part].segment; };
  uint64_t bytes = 0;
  for (const Slice& slice : slices_) bytes += slice.keys.size() + BytesOf(slice);
  // Who pulls does as much for a row as the shard does: a client with several small pulls under way would
  // have to share its core with the helper, or is itself what they wait for. A push costs its client less.
  if (!alone && bytes < kSharedAmongOthers) bytes = 0;
  context_.Deal(
      std::views::iota(size_t{0}, slices_.size()), segment_of,
      [self = shared_from_this()](const std::vector<size_t>& mine) {
        if (self->reduction_.has_value()) {
          for (const size_t part : mine) self->ServeInTurn(part);
          return;
        }
        const absl::Time now = self->context_.clock().Now();
        if (self->cancelled()) return;
        FetchAhead ahead(self->context_, self->table_->id, self->form_);
        const auto slice = [&](size_t n) -> const Slice& { return self->slices_[mine[n]]; };
        for (size_t i = 0; i < mine.size(); ++i) {
          ahead.Before(
              i, mine.size(), [&](size_t n) { return slice(n).segment; },
              [&](size_t n) { return slice(n).keys; });
          self->Serve(mine[i], now);
        }
      },
      bytes);
}

void PullOp::ServeInTurn(size_t part) {
  context_.executor(slices_[part].segment).RunLong([self = shared_from_this(), part] {
    if (!self->cancelled()) self->Serve(part, self->context_.clock().Now());
  });
}

bool PullOp::Later(size_t part, const log::Wait& wait) {
  NoteWait(wait);
  ServeInTurn(part);
  return true;
}

void PullOp::NoteWait(const log::Wait& wait) {
  if (wait.cause == log::Wait::Cause::kStaleness && wait.duration > absl::ZeroDuration()) {
    MutexLock lock(&mutex_);
    if (wait.duration > staleness_wait_) {
      staleness_wait_ = wait.duration;
      waited_for_ = wait.for_whom;
      waited_for_rank_ = wait.for_rank;
    }
  }
  if (wait.cause == log::Wait::Cause::kQueue && wait.duration > absl::ZeroDuration()) {
    MutexLock lock(&mutex_);
    own_part_wait_ = std::max(own_part_wait_, wait.duration);
  }
  if (wait.cause == log::Wait::Cause::kReplication && wait.duration > absl::ZeroDuration()) {
    MutexLock lock(&mutex_);
    replication_wait_ = std::max(replication_wait_, wait.duration);
  }
}

void PullOp::Served(size_t part, const wire::Certificate& certificate, const log::Wait& wait) {
  certificates_[part] = certificate;
  if (head_.reader_clock_plus_one() != 0 && !asks_changes_) {
    context_.probe().StalenessObserved(
        model_, clock::ObservedStaleness(head_.reader_clock_plus_one() - 1, certificate.min_clock),
        slices_[part].rows);
  }
  NoteWait(wait);
  Answered();
}

void PullOp::Refused(size_t part, v1::Refusal refusal) {
  certificates_[part].segment = slices_[part].segment;
  context_.probe().Refused(refusal.reason());
  {
    MutexLock lock(&mutex_);
    refusals_.push_back(std::move(refusal));
  }
  Answered();
}

void PullOp::Answered() {
  if (left_.fetch_sub(1) == 1) Send();
}

absl::Cord PullOp::Values() {
  bool whole = true;
  for (const wire::Certificate& certificate : certificates_) whole = whole && certificate.served;
  if (!whole) {  // refused parts have no values: close the gaps
    size_t to = 0;
    for (size_t part = 0; part < slices_.size(); ++part) {
      if (!certificates_[part].served) continue;
      std::memmove(values_.get() + to, values_.get() + slices_[part].first_row * row_bytes_,
                   BytesOf(slices_[part]));
      to += BytesOf(slices_[part]);
    }
    return wire::Borrow(absl::string_view(values_.get(), to), values_);
  }
  return wire::Borrow(absl::string_view(values_.get(), values_bytes_), values_);
}

// Adds the keys of the changed rows to `head`, and returns their values without gaps.
absl::Cord PullOp::TellChanges(v1::PullReply& head) {
  size_t to = 0;
  for (size_t part = 0; part < slices_.size(); ++part) {
    const uint32_t told = certificates_[part].served ? changes_[part] : 0;
    char packed[sizeof(told)];
    StoreU32(told, packed);
    head.mutable_changes()->append(packed, sizeof(packed));
    if (told == wire::kChangesUnknown || told == 0) continue;
    const uint64_t first = slices_[part].first_row;
    head.mutable_changed()->append(reinterpret_cast<const char*>(changed_.data() + first),
                                   told * log::kKeyBytes);
    std::memmove(values_.get() + to, values_.get() + first * row_bytes_, told * row_bytes_);
    to += told * row_bytes_;
  }
  return wire::Borrow(absl::string_view(values_.get(), to), values_);
}

// The values count for as long as this stream or its carrier has them.
bool PullOp::Hold() {
  struct Held {
    std::shared_ptr<char[]> values;
    std::shared_ptr<const ReplyBudget::Share> share;
  };
  std::shared_ptr<const ReplyBudget::Share> share = context_.replies().Take(values_bytes_);
  if (share == nullptr) return false;
  char* const values = values_.get();
  share_ = share;
  values_ = {std::make_shared<Held>(Held{std::move(values_), std::move(share)}), values};
  return true;
}

wire::Frame<v1::PullReply> PullOp::Unheld() {
  context_.probe().Refused(v1::Refusal::OVER_BUDGET);
  v1::Refusal refusal =
      MakeRefusal(v1::Refusal::OVER_BUDGET,
                  absl::StrCat("pull: the replies of all clients that wait to be read take ",
                               context_.replies().taken(), " of ", context_.replies().bytes_max(),
                               " bytes (--reply-budget); try again, and read replies"));
  refusal.set_retry_after_ms(20);
  v1::PullReply reply;
  reply.set_request(head_.request());
  *reply.add_refusals() = std::move(refusal);
  return {.head = std::move(reply), .keys = {}, .values = {}};
}

void PullOp::Send() {
  if (!Hold()) return replies_->Reply(Unheld(), reserved_bytes_, head_.priority());
  const absl::Duration total = context_.clock().Now() - start_;
  wire::Frame<v1::PullReply> reply;
  reply.head.set_request(head_.request());
  reply.head.mutable_certificates()->reserve(certificates_.size() * wire::kCertificateBytes);
  for (const wire::Certificate& certificate : certificates_) {
    wire::Append(certificate, *reply.head.mutable_certificates());
  }
  absl::Duration staleness;
  absl::Duration replication;
  absl::Duration queue = absl::Nanoseconds(taken_ns_.load(std::memory_order_relaxed));
  {
    MutexLock lock(&mutex_);
    for (v1::Refusal& refusal : refusals_) *reply.head.add_refusals() = std::move(refusal);
    staleness = std::min(staleness_wait_, total);
    // Parts wait side by side: what is counted already is not counted twice.
    replication = std::min(replication_wait_, total - staleness);
    reply.head.set_waited_for(waited_for_);
    if (waited_for_rank_.has_value()) reply.head.set_waited_for_rank_plus_one(*waited_for_rank_ + 1);
    queue += own_part_wait_;
  }
  const absl::Duration apply = std::max(total - staleness - replication - queue, absl::ZeroDuration());
  reply.head.set_wait_staleness_us(absl::ToInt64Microseconds(staleness));
  reply.head.set_wait_queue_us(absl::ToInt64Microseconds(total - staleness));
  reply.head.set_wait_apply_us(absl::ToInt64Microseconds(apply));
  reply.head.set_wait_replication_us(absl::ToInt64Microseconds(replication));
  reply.values = asks_changes_ ? TellChanges(reply.head) : Values();
  const uint64_t rows = row_bytes_ == 0 || reduction_.has_value() ? 0 : reply.values.size() / row_bytes_;
  context_.CountPulled(rows);
  context_.probe().PullServed(rows, reply.values.size(), total, staleness, replication);
  if (!filters_.empty()) EncodeRows(context_, filters_, table_->schema.dim, values_, share_, reply);
  replies_->Reply(reply, reserved_bytes_, head_.priority());
}

}  // namespace paceline::shard
