#include "services/shard/streams/pull_stream.h"

#include "absl/strings/str_cat.h"
#include "libs/wire/frame.h"

namespace paceline::shard {
namespace {

// The shard reads rows much faster than a connection carries them. With so many bytes of replies waiting, or
// so many replies, it reads no more pulls: their replies would only lie in memory, out of the caches.
constexpr uint64_t kRepliesAhead = uint64_t{4} << 20;
constexpr size_t kPullRepliesMax = 4 * 1024;

}  // namespace

bool PullStream::TakesFrame() {
  MutexLock lock(&mutex_);
  stopped_ = Stopped();
  return !stopped_;
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
  if (const absl::Status read = filters_.Decode(*request); !read.ok()) {
    return Fail(request->head.request(), MakeRefusal(v1::Refusal::MALFORMED, std::string(read.message())));
  }
  std::make_shared<PullOp>(shared_from_this(), context_, *std::move(request), *caller_)->Start();
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
  Reply({.head = reply, .keys = {}, .values = {}}, 0);
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

void PullStream::Reply(const wire::Frame<v1::PullReply>& reply, uint64_t reserved) {
  absl::Cord frame = wire::Encode(reply);
  std::shared_ptr<world::StreamPort> port;
  {
    MutexLock lock(&mutex_);
    if (ended()) return;
    ++answered_;
    const uint64_t taken = Waits(reserved, frame.size());
    replies_.push_back({.frame = std::move(frame), .reserved = taken});
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
    if (stopped_ && !Stopped()) read_on = port_;
  }
  if (read_on != nullptr) read_on->ReadOn();
  return true;
}

void PullStream::OnBroken(absl::Status) {
  MutexLock lock(&mutex_);
  ended_ = true;
  port_ = nullptr;
  replies_.clear();
  replies_bytes_ = 0;
}

}  // namespace paceline::shard
