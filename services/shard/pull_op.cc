#include "services/shard/pull_op.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/clock/consistency.h"

namespace paceline::shard {

PullOp::PullOp(std::shared_ptr<PullStream> stream, wire::Frame<v1::PullRequest> request, Caller caller)
    : stream_(std::move(stream)),
      shard_(stream_->shard_),
      head_(std::move(request.head)),
      keys_(std::move(request.keys)),
      caller_(caller),
      start_(shard_.clock().Now()) {}

void PullOp::Start() {
  const auto view = shard_.view();
  if (auto refusal = NotNow(shard_, *view, CatalogueVersion(head_.catalogue_version()))) {
    return stream_->Fail(head_.request(), *std::move(refusal));
  }
  if (absl::Status status = Prepare(*view); !status.ok()) {
    const auto reason = status.code() == absl::StatusCode::kResourceExhausted ? v1::Refusal::OVER_BUDGET
                                                                              : v1::Refusal::INVALID;
    v1::Refusal refusal = MakeRefusal(reason, std::string(status.message()));
    if (reason == v1::Refusal::OVER_BUDGET) refusal.set_retry_after_ms(20);
    return stream_->Fail(head_.request(), std::move(refusal));
  }
  HandOut();
}

absl::Status PullOp::Prepare(const Shard::View& view) {
  ABSL_ASSIGN_OR_RETURN(const std::vector<wire::PartEntry> entries, wire::ParseParts(head_.parts()));
  ABSL_ASSIGN_OR_RETURN(form_, FormOf(head_.key_form()));
  ABSL_RETURN_IF_ERROR(CheckFilters(head_.filters()));
  ABSL_ASSIGN_OR_RETURN(table_, view.catalogue->Find(TableId(head_.table()), caller_.job));
  ABSL_ASSIGN_OR_RETURN(slices_, SliceKeys(entries, form_, keys_.view(), view.map->SegmentCount()));
  row_bytes_ = table_->schema.dim * sizeof(float);
  const uint64_t rows = slices_.empty() ? 0 : slices_.back().first_row + slices_.back().rows;
  if (rows > shard_.options().frame_bytes_max / row_bytes_) {
    return absl::InvalidArgumentError(
        absl::StrCat("keys: ", rows, " rows of ", row_bytes_, " bytes; a reply holds at most ",
                     shard_.options().frame_bytes_max, " bytes; ask for fewer at a time"));
  }
  values_bytes_ = rows * row_bytes_;
  if (!stream_->Reserve(values_bytes_)) {
    return absl::ResourceExhaustedError(
        "pull: too many replies of this stream wait to be read; read them first");
  }
  values_ = std::shared_ptr<char[]>(new char[std::max<size_t>(values_bytes_, 1)]);
  certificates_.resize(slices_.size());
  return absl::OkStatus();
}

log::Read PullOp::ReadOf(size_t part) {
  const Slice& slice = slices_[part];
  const absl::Duration asked =
      head_.timeout_ms() == 0 ? absl::InfiniteDuration() : absl::Milliseconds(head_.timeout_ms());
  return {.session = caller_.session,
          .job = caller_.job,
          .table = table_,
          .form = form_,
          .keys = slice.keys,
          .out = reinterpret_cast<std::byte*>(values_.get() + slice.first_row * row_bytes_),
          .own = slice.number,
          .min_clock = head_.min_clock(),
          .deadline = start_ + std::min(asked, shard_.options().pull_timeout_max),
          .part = part,
          .sink = shared_from_this()};
}

void PullOp::HandOut() {
  if (slices_.empty()) return Send();
  left_ = slices_.size();
  std::vector<std::vector<size_t>> by_executor(shard_.executor_count());
  for (size_t part = 0; part < slices_.size(); ++part) {
    by_executor[shard_.ExecutorOf(slices_[part].segment)].push_back(part);
  }
  for (size_t e = 0; e < by_executor.size(); ++e) {
    if (by_executor[e].empty()) continue;
    shard_.executor(e).Run([self = shared_from_this(), mine = std::move(by_executor[e])] {
      const absl::Time now = self->shard_.clock().Now();
      for (size_t part : mine) {
        const Slice& slice = self->slices_[part];
        self->shard_.host(slice.segment).Serve(self->ReadOf(part), slice.sender_epoch, now);
      }
    });
  }
}

void PullOp::Served(size_t part, const wire::Certificate& certificate, const log::Wait& wait) {
  certificates_[part] = certificate;
  if (head_.reader_clock_plus_one() != 0) {
    shard_.probe().StalenessObserved(
        clock::ObservedStaleness(head_.reader_clock_plus_one() - 1, certificate.min_clock),
        slices_[part].rows);
  }
  if (wait.cause == log::Wait::Cause::kStaleness && wait.duration > absl::ZeroDuration()) {
    absl::MutexLock lock(&mutex_);
    if (wait.duration > staleness_wait_) {
      staleness_wait_ = wait.duration;
      waited_for_ = wait.for_whom;
    }
  }
  Answered();
}

void PullOp::Refused(size_t part, v1::Refusal refusal) {
  certificates_[part].segment = slices_[part].segment;
  shard_.probe().Refused(refusal.reason());
  {
    absl::MutexLock lock(&mutex_);
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

void PullOp::Send() {
  const absl::Duration total = shard_.clock().Now() - start_;
  wire::Frame<v1::PullReply> reply;
  reply.head.set_request(head_.request());
  for (const wire::Certificate& certificate : certificates_) {
    wire::Append(certificate, *reply.head.mutable_certificates());
  }
  absl::Duration staleness;
  {
    absl::MutexLock lock(&mutex_);
    for (v1::Refusal& refusal : refusals_) *reply.head.add_refusals() = std::move(refusal);
    staleness = std::min(staleness_wait_, total);
    reply.head.set_waited_for(waited_for_);
  }
  reply.head.set_wait_staleness_us(absl::ToInt64Microseconds(staleness));
  reply.head.set_wait_queue_us(absl::ToInt64Microseconds(total - staleness));
  reply.values = Values();
  shard_.CountPulled(row_bytes_ == 0 ? 0 : reply.values.size() / row_bytes_);
  shard_.probe().PullServed(row_bytes_ == 0 ? 0 : reply.values.size() / row_bytes_, reply.values.size(),
                            total, staleness);
  stream_->Reply(wire::Encode(reply), values_bytes_);
}

}  // namespace paceline::shard
