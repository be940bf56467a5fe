#include "services/shard/streams/pull_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/wire/frame.h"
#include "libs/world/soon.h"

namespace paceline::shard {
namespace {

// The shard reads rows much faster than a connection carries them. With so many bytes of replies waiting, or
// so many replies, it reads no more pulls: their replies would only lie in memory, out of the caches.
constexpr uint64_t kRepliesAhead = uint64_t{4} << 20;
constexpr size_t kPullRepliesMax = 4 * 1024;
// Requests that are read all the same, because more urgent ones may follow; and the bytes of these.
constexpr size_t kRequestsAhead = 4 * 1024;
constexpr uint64_t kRequestBytesAhead = uint64_t{4} << 20;

}  // namespace

bool PullStream::TakesFrame() {
  MutexLock lock(&mutex_);
  stopped_ = Full();
  return !stopped_;
}

bool PullStream::Full() const {
  if (!Stopped()) return false;
  return !by_priority_ || requests_.size() >= kRequestsAhead || requests_bytes_ >= kRequestBytesAhead;
}

bool PullStream::Stopped() const {
  return replies_bytes_ > kRepliesAhead || replies_.size() >= kPullRepliesMax;
}

void PullStream::OnFrame(absl::Cord bytes) {
  {
    MutexLock lock(&mutex_);
    if (ended()) return;
    ++asked_;
  }
  if (bytes.size() > context_.options().frame_bytes_max) {
    return Fail(
        0, MakeRefusal(v1::Refusal::MALFORMED,
                       absl::StrCat("frame: ", bytes.size(), " bytes; at most ",
                                    context_.options().frame_bytes_max, " are taken; send smaller frames")));
  }
  auto request = wire::Decode<v1::PullRequest>(bytes);
  if (!request.ok())
    return Fail(0, MakeRefusal(v1::Refusal::MALFORMED, std::string(request.status().message())));
  if (request->head.has_hello()) return Greeted(*std::move(request));
  if (!caller_.has_value()) {
    return Fail(
        request->head.request(),
        MakeRefusal(v1::Refusal::MALFORMED, "hello: missing; the first frame of a stream is a Hello, alone"));
  }
  const auto notes = filters_.Decode(*request);
  if (!notes.ok()) {
    return Fail(request->head.request(),
                MakeRefusal(v1::Refusal::MALFORMED, std::string(notes.status().message())));
  }
  const uint64_t size =
      std::max<uint64_t>(bytes.size(), request->keys.size());  // a list of keys may be named
  // Without a pause since the last one there are several under way.
  const uint64_t before = std::exchange(pauses_, world::Soon::Pauses());
  Take(*std::move(request), notes->get(), size, /*alone=*/pauses_ == 0 || pauses_ != before);
}

void PullStream::Take(Request request, filter::ListNotes* notes, uint64_t bytes, bool alone) {
  {
    MutexLock lock(&mutex_);
    const uint32_t priority = request.head.priority();
    by_priority_ = by_priority_ || priority != 0;
    if (Stopped() && by_priority_) {
      requests_.emplace(priority, WaitingRequest{.request = std::move(request), .bytes = bytes});
      requests_bytes_ += bytes;
      return;
    }
  }
  Serve(std::move(request), notes, alone);
}

void PullStream::Serve(Request request, filter::ListNotes* notes, bool alone) {
  std::make_shared<PullOp>(shared_from_this(), context_, std::move(request), *caller_)->Start(alone, notes);
}

std::optional<PullStream::Request> PullStream::TakeWaiting() {
  MutexLock lock(&mutex_);
  if (requests_.empty() || Stopped()) return std::nullopt;
  WaitingRequest first = std::move(requests_.extract(requests_.begin()).mapped());
  requests_bytes_ -= first.bytes;
  return std::move(first.request);
}

void PullStream::Greeted(wire::Frame<v1::PullRequest> request) {
  const v1::Hello hello = request.head.hello();
  if (auto refusal = NotAlone(request)) return Fail(0, *std::move(refusal));
  v1::PullReply reply;
  if (auto refusal = Greet(context_, hello, &caller_, reply.mutable_welcome())) {
    return Fail(0, *std::move(refusal));
  }
  filters_.Agree(hello, *reply.mutable_welcome());
  greeted_ = true;
  Reply({.head = reply, .keys = {}, .values = {}}, 0, /*priority=*/0);
  {
    MutexLock lock(&mutex_);
    ++asked_;
  }
  AskWhetherOver(context_, *caller_, [self = shared_from_this()](const std::optional<v1::Refusal>& over) {
    over.has_value() ? self->Fail(0, *over) : self->NothingToSay();
  });
}

void PullStream::NothingToSay() {
  std::shared_ptr<world::StreamPort> port;
  {
    MutexLock lock(&mutex_);
    ++answered_;
    if (finished_) port = port_;
  }
  if (port != nullptr) port->Kick();
}

void PullStream::Reply(const wire::Frame<v1::PullReply>& reply, uint64_t reserved, uint32_t priority) {
  absl::Cord frame = wire::Encode(reply);
  std::shared_ptr<world::StreamPort> port;
  {
    MutexLock lock(&mutex_);
    if (ended()) return;
    ++answered_;
    const uint64_t taken = Waits(reserved, frame.size());
    const auto place = std::upper_bound(replies_.begin(), replies_.end(), priority,
                                        [](uint32_t p, const Waiting& other) { return p < other.priority; });
    replies_.insert(place, {.frame = std::move(frame), .reserved = taken, .priority = priority});
    replies_bytes_ += taken;
    port = port_;
  }
  if (port != nullptr) port->Kick();
}

bool PullStream::NextFrame(absl::Cord* frame) {
  std::shared_ptr<world::StreamPort> done, read_on;
  {
    MutexLock lock(&mutex_);
    if (replies_.empty() && finished_ && answered_ == asked_) done = port_;
  }
  if (done != nullptr) done->Close(absl::OkStatus());
  {
    MutexLock lock(&mutex_);
    if (replies_.empty()) return false;
    *frame = std::move(replies_.front().frame);
    GoesOut(replies_.front().reserved);
    replies_bytes_ -= replies_.front().reserved;
    replies_.pop_front();
    if (stopped_ && !Full()) read_on = port_;
  }
  while (std::optional<Request> next = TakeWaiting())
    Serve(*std::move(next), /*notes=*/nullptr, /*alone=*/false);
  if (read_on != nullptr) read_on->ReadOn();
  return true;
}

void PullStream::OnBroken(absl::Status) {
  filters_.End();
  MutexLock lock(&mutex_);
  ended_ = true;
  port_ = nullptr;
  replies_.clear();
  replies_bytes_ = 0;
  requests_.clear();
  requests_bytes_ = 0;
}

}  // namespace paceline::shard
