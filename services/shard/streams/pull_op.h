#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "libs/base/mutex.h"
#include "libs/log/primary.h"
#include "libs/wire/frame.h"
#include "services/shard/context.h"
#include "services/shard/streams/hello.h"
#include "services/shard/streams/take_apart.h"

namespace paceline::shard {

// The stream that a pull came on, and that its reply goes to. Called from any thread.
class PullReplies {
 public:
  virtual ~PullReplies() = default;
  // Sends a reply whose values take `reserved` bytes of the stream's budget, before those that wait and have
  // a higher priority number.
  virtual void Reply(const wire::Frame<v1::PullReply>& reply, uint64_t reserved, uint32_t priority) = 0;
  // The request is refused as a whole.
  virtual void Fail(uint64_t request, v1::Refusal refusal) = 0;
  // False: too many bytes of replies are waiting already.
  virtual bool Reserve(uint64_t bytes) = 0;
  // True: the answer is no longer wanted.
  virtual bool ended() const = 0;
};

// One pull under way. Segments answer its parts in any order, on any executor; each writes its own stretch of
// the reply's values.
//
// More than 15 members: the request, and what its parts have brought so far; it lives for one pull, and is
// allocated once.
class PullOp : public log::ReadSink, public std::enable_shared_from_this<PullOp> {
 public:
  PullOp(std::shared_ptr<PullReplies> replies, Context& context, wire::Frame<v1::PullRequest> request,
         Caller caller);

  // Takes the request apart and hands its parts out. The reply goes to the stream, now or when the last part
  // is answered; a request that is wrong as a whole is refused at once. `alone`: its client has no other pull
  // under way, as far as is known. `notes`: of the list that the request's keys are; null: they are none, or
  // the caller is not the thread that brings the stream's frames.
  void Start(bool alone, filter::ListNotes* notes);

  // The same for parts that are read when something else has been done to them: takes the request apart only.
  // True: the caller then calls Serve or Refused for every part, once. False: the request was refused.
  bool StartHeld(filter::ListNotes* notes);
  // REQUIRES: on the executor of the part's segment.
  void Serve(size_t part, absl::Time now);

  void Served(size_t part, const wire::Certificate& certificate, const log::Wait& wait) override;
  void Refused(size_t part, v1::Refusal refusal) override;
  bool Later(size_t part, const log::Wait& wait) override;
  bool cancelled() const override { return replies_->ended(); }

 private:
  absl::Status Prepare(const View& view, const std::vector<wire::PartEntry>& entries,
                       filter::ListNotes* notes);
  absl::Status PrepareReduction();
  log::Read ReadOf(size_t part);
  void HandOut(bool alone);
  // Serves a slice of a reduction when it is its turn among those of its executor (Executor::RunLong).
  void ServeInTurn(size_t part);
  void NoteWait(const log::Wait& wait);
  void Answered();
  void Send();
  // False: the values would be too many, of all streams.
  bool Hold();
  // The refusal that goes instead of them.
  wire::Frame<v1::PullReply> Unheld();
  absl::Cord Values();
  absl::Cord TellChanges(v1::PullReply& head);
  size_t BytesOf(const Slice& slice) const { return slice.rows * row_bytes_; }

  const std::shared_ptr<PullReplies> replies_;
  Context& context_;
  const v1::PullRequest head_;
  const wire::FlatBytes keys_;
  const Caller caller_;
  const absl::Time start_;

  log::KeyForm form_ = log::KeyForm::kKeys;
  std::shared_ptr<const log::TableInfo> table_;
  Probe::Model model_ = Probe::Model::kAsp;
  bool keys_known_ = false;
  uint32_t row_bytes_ = 0;  // or those of a partial result
  std::vector<Slice> slices_;
  std::vector<wire::Certificate> certificates_;  // by part; each written by one segment
  std::shared_ptr<char[]> values_;
  size_t values_bytes_ = 0;
  size_t reserved_bytes_ = 0;
  filter::FilterSet filters_;          // that the reader has asked for its rows
  std::shared_ptr<const void> share_;  // of the replies' memory
  // For a read that asks for changes: the number of changed rows of each part, and their keys.
  bool asks_changes_ = false;
  std::vector<uint32_t> changes_;
  std::vector<uint64_t> changed_;
  // For a read that asks for a reduction: parts have partial results instead of rows.
  std::optional<table::ReduceQuery> reduction_;
  std::atomic<size_t> left_{0};
  std::atomic<int64_t> taken_ns_{0};  // when an executor last began to serve parts; what came before is queue

  Mutex mutex_;
  std::vector<v1::Refusal> refusals_ ABSL_GUARDED_BY(mutex_);
  absl::Duration staleness_wait_ ABSL_GUARDED_BY(mutex_);
  absl::Duration replication_wait_ ABSL_GUARDED_BY(mutex_);
  absl::Duration own_part_wait_ ABSL_GUARDED_BY(mutex_);
  std::string waited_for_ ABSL_GUARDED_BY(mutex_);
  std::optional<uint32_t> waited_for_rank_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paceline::shard
