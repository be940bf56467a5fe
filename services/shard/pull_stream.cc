#include "services/shard/pull_stream.h"

#include "absl/strings/str_cat.h"
#include "libs/wire/frame.h"
#include "services/shard/pull_op.h"

namespace paceline::shard {
namespace {

// Small replies take no bytes of the budget worth counting; this bounds their number.
constexpr size_t kRepliesMax = 16 * 1024;

}  // namespace

PullStream::PullStream(Shard& shard) : shard_(shard) {
  shard_.probe().StreamOpened("pull");
}
PullStream::~PullStream() {
  shard_.probe().StreamClosed("pull");
}

void PullStream::Attach(std::shared_ptr<world::StreamPort> port) {
  absl::MutexLock lock(&mutex_);
  port_ = std::move(port);
}

void PullStream::OnFrame(absl::Cord bytes) {
  {
    absl::MutexLock lock(&mutex_);
    ++asked_;
  }
  if (bytes.size() > shard_.options().frame_bytes_max) {
    return Fail(
        0, MakeRefusal(v1::Refusal::MALFORMED,
                       absl::StrCat("frame: ", bytes.size(), " bytes; at most ",
                                    shard_.options().frame_bytes_max, " are taken; send smaller frames")));
  }
  auto request = wire::Decode<v1::PullRequest>(bytes);
  if (!request.ok())
    return Fail(0, MakeRefusal(v1::Refusal::MALFORMED, std::string(request.status().message())));
  if (request->head.has_hello()) {
    v1::PullReply reply;
    if (auto refusal = Greet(shard_, request->head.hello(), &caller_, reply.mutable_welcome())) {
      return Fail(0, *std::move(refusal));
    }
    return Reply(wire::JoinFrame(reply, {}, {}), 0);
  }
  if (!caller_.has_value()) {
    return Fail(
        request->head.request(),
        MakeRefusal(v1::Refusal::MALFORMED, "hello: missing; the first frame of a stream is a Hello, alone"));
  }
  std::make_shared<PullOp>(shared_from_this(), *std::move(request), *caller_)->Start();
}

void PullStream::Fail(uint64_t request, v1::Refusal refusal) {
  shard_.probe().Refused(refusal.reason());
  v1::PullReply reply;
  reply.set_request(request);
  *reply.add_refusals() = std::move(refusal);
  Reply(wire::JoinFrame(reply, {}, {}), 0);
}

bool PullStream::Reserve(uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  // One reply always fits, however large.
  if (reserved_ != 0 && reserved_ + bytes > shard_.options().reply_bytes_max) return false;
  reserved_ += bytes;
  return true;
}

void PullStream::Reply(absl::Cord frame, uint64_t reserved) {
  std::shared_ptr<world::StreamPort> port;
  bool drowned = false;
  {
    absl::MutexLock lock(&mutex_);
    ++answered_;
    replies_.push_back({.frame = std::move(frame), .reserved = reserved});
    drowned = replies_.size() > kRepliesMax;
    port = port_;
  }
  if (port == nullptr) return;
  if (drowned) {
    port->Close(absl::ResourceExhaustedError(
        absl::StrCat("pull: ", kRepliesMax, " replies wait to be read; read replies while you ask")));
  } else {
    port->Kick();
  }
}

bool PullStream::NextFrame(absl::Cord* frame) {
  std::shared_ptr<world::StreamPort> done;
  {
    absl::MutexLock lock(&mutex_);
    if (replies_.empty() && finished_ && answered_ == asked_) done = port_;
  }
  if (done != nullptr) done->Close(absl::OkStatus());
  absl::MutexLock lock(&mutex_);
  if (replies_.empty()) return false;
  *frame = std::move(replies_.front().frame);
  reserved_ -= replies_.front().reserved;
  replies_.pop_front();
  return true;
}

void PullStream::OnFinished() {
  std::shared_ptr<world::StreamPort> port;
  {
    absl::MutexLock lock(&mutex_);
    finished_ = true;
    port = port_;
  }
  if (port != nullptr) port->Kick();
}

void PullStream::OnBroken(absl::Status) {
  absl::MutexLock lock(&mutex_);
  port_ = nullptr;
  replies_.clear();
}

}  // namespace paceline::shard
