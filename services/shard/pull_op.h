#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "libs/log/primary.h"
#include "libs/wire/frame.h"
#include "services/shard/pull_stream.h"
#include "services/shard/take_apart.h"

namespace paceline::shard {

// One pull under way: its parts are answered by their segments in any order, on any executor, each writing
// its own stretch of the reply's values.
class PullOp : public log::ReadSink, public std::enable_shared_from_this<PullOp> {
 public:
  PullOp(std::shared_ptr<PullStream> stream, wire::Frame<v1::PullRequest> request, Caller caller);

  // Takes the request apart and hands its parts out. The reply goes to the stream, now or when the last part
  // is answered; a request that is wrong as a whole is refused at once.
  void Start();

  void Served(size_t part, const wire::Certificate& certificate, const log::Wait& wait) override;
  void Refused(size_t part, v1::Refusal refusal) override;

 private:
  absl::Status Prepare(const Shard::View& view);
  log::Read ReadOf(size_t part);
  void HandOut();
  void Answered();
  void Send();
  absl::Cord Values();
  size_t BytesOf(const Slice& slice) const { return slice.rows * row_bytes_; }

  const std::shared_ptr<PullStream> stream_;
  Shard& shard_;
  const v1::PullRequest head_;
  const wire::FlatBytes keys_;
  const Caller caller_;
  const absl::Time start_;

  log::KeyForm form_ = log::KeyForm::kKeys;
  std::shared_ptr<const log::TableInfo> table_;
  uint32_t row_bytes_ = 0;
  std::vector<Slice> slices_;
  std::vector<wire::Certificate> certificates_;  // by part; each written by one segment
  std::shared_ptr<char[]> values_;
  size_t values_bytes_ = 0;
  std::atomic<size_t> left_{0};

  absl::Mutex mutex_;
  std::vector<v1::Refusal> refusals_ ABSL_GUARDED_BY(mutex_);
  absl::Duration staleness_wait_ ABSL_GUARDED_BY(mutex_);
  std::string waited_for_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paceline::shard
