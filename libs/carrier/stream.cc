#include "libs/carrier/stream.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/world/real_clock.h"

namespace paceline::carrier {
namespace {

// When a stream is closed with an error, its peer gets this long to read what is under way.
constexpr absl::Duration kCloseGrace = absl::Seconds(2);
// A shard answers at once. One that accepts no more, for want of descriptors or because it stands still, may
// still serve connections that it has: its client goes over TCP before it gives up.
constexpr absl::Duration kAnswerTimeout = absl::Seconds(4);
// Eight of these are as much as one large frame of a client, which others wait for as well.
constexpr size_t kSmallFrame = size_t{128} << 10;
// So many bytes are written in one go; then the loop goes on, and others have their turn.
constexpr size_t kInOneGo = size_t{4} << 20;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

int64_t In(absl::Duration time) {
  return absl::ToUnixNanos(world::MonotonicNow() + time);
}

}  // namespace

class Stream::ShardPort final : public world::StreamPort {
 public:
  explicit ShardPort(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}
  void Kick() override { stream_->Kick(); }
  void KickSoon() override { world::Soon::Kick(stream_); }
  void ReadOn() override { stream_->loop_->Wake(); }
  void Close(absl::Status why) override { stream_->Close(std::move(why)); }

 private:
  const std::shared_ptr<Stream> stream_;
};

class Stream::ClientPort final : public world::StreamPort {
 public:
  explicit ClientPort(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}
  ~ClientPort() override { Close(absl::CancelledError("the stream was closed")); }
  bool LetsGoOfFrames() const override { return true; }
  void Kick() override { stream_->Kick(); }
  void KickSoon() override { world::Soon::Kick(stream_); }
  void Close(absl::Status why) override { stream_->Close(std::move(why)); }

 private:
  const std::shared_ptr<Stream> stream_;
};

Stream::Stream(std::shared_ptr<Waker> loop, Parts parts)
    : loop_(std::move(loop)),
      side_(parts.side),
      peer_(std::move(parts.peer)),
      stuck_max_(parts.stuck_max),
      held_(std::move(parts.held)),
      pipe_(std::move(parts.pipe)),
      told_answer_(std::move(parts.answered)),
      handler_(std::move(parts.handler)),
      answered_(side_ == Side::kShard),
      cut_at_(answered_ || pipe_ == nullptr ? kNever : In(kAnswerTimeout)),
      stuck_at_(kNever) {}

std::shared_ptr<world::StreamPort> Stream::PortAtShard(std::shared_ptr<Stream> stream) {
  return std::make_shared<ShardPort>(std::move(stream));
}

std::unique_ptr<world::StreamPort> Stream::PortAtClient(std::shared_ptr<Stream> stream) {
  return std::make_unique<ClientPort>(std::move(stream));
}

void Stream::Kick() {
  {
    MutexLock lock(&mutex_);
    if (end_.has_value()) return;
    if (busy_) {
      kicked_ = true;
      return;
    }
    busy_ = true;
  }
  // The socket may have told of room before blocked_ was set, and a loop have heard that saw nothing to do:
  // it looks once more.
  if (WriteOn()) loop_->Wake();
}

void Stream::Close(absl::Status why) {
  if (side_ == Side::kClient) return End(std::move(why));
  const bool error = !why.ok();
  {
    MutexLock lock(&mutex_);
    if (end_.has_value() || close_.has_value()) return;
    close_ = std::move(why);
  }
  if (error) cut_at_ = In(kCloseGrace);
  closing_ = true;
  Kick();
  if (error) loop_->Wake();  // it has to look at the clock
}

void Stream::End(absl::Status why) {
  {
    MutexLock lock(&mutex_);
    if (end_.has_value()) return;
    end_ = std::move(why);
  }
  ending_ = true;
  loop_->Wake();
}

void Stream::SetPipe(std::unique_ptr<Pipe> pipe) {
  pipe_ = std::move(pipe);
  cut_at_ = In(kAnswerTimeout);
}

void Stream::Begin() {
  if (WriteOn()) loop_->Wake();
}

// -- writing --

bool Stream::WriteOn() {
  size_t begun = 0;
  while (NextToWrite(begun)) {
    if (begun > kInOneGo && WaitForRoom()) return true;
    switch (pipe_->WriteOn()) {
      case Pipe::Wrote::kAll:
        break;
      case Pipe::Wrote::kFull:
        if (WaitForRoom()) return true;
        break;
      case Pipe::Wrote::kDamaged:
        End(absl::UnavailableError(absl::StrCat(peer_, ": broke the rules of the ring that it reads")));
        break;  // NextToWrite finds the end
    }
  }
  return false;
}

bool Stream::NextToWrite(size_t& begun) {
  while (true) {
    if (!ending_ && pipe_->writing()) return true;
    absl::Cord frame;
    if (!ending_ && !said_end_ && handler_->NextFrame(&frame)) {
      begun += frame.size();
      pipe_->Begin(FrameKind::kFrame, std::move(frame));
      return true;
    }
    MutexLock lock(&mutex_);
    if (!end_.has_value()) {
      if (std::exchange(kicked_, false)) continue;
      if (close_.has_value() && !said_end_) {
        said_end_ = true;
        pipe_->Begin(FrameKind::kEnd, EncodeEnd(*close_));
        return true;
      }
      if (said_end_) FinishWrites();
    }
    busy_ = false;
    if (!end_.has_value()) return false;
    break;
  }
  ending_ = true;
  loop_->Wake();  // it waits for this write to end
  return false;
}

void Stream::FinishWrites() {
  if (pipe_->FinishWrites()) {
    end_ = absl::OkStatus();
    return;
  }
  int64_t never = kNever;
  (void)cut_at_.compare_exchange_strong(never, In(kCloseGrace));
  lingers_ = true;
  loop_->Wake();
}

bool Stream::WaitForRoom() {
  MutexLock lock(&mutex_);
  if (end_.has_value()) return false;
  stuck_at_ = In(stuck_max_);
  blocked_ = true;
  return true;
}

bool Stream::GoOnWriting() {
  if (!blocked_ || !pipe_->HasRoom()) return false;
  {
    MutexLock lock(&mutex_);
    blocked_ = false;
    stuck_at_ = kNever;
  }
  pipe_->RiseWriter();
  WriteOn();
  return true;
}

// -- the loop's turn --

Stream::Did Stream::Step() {
  if (told_) return Did::kNothing;
  if (ending_) return TellEnd() ? Did::kMuch : Did::kNothing;
  if (pipe_ == nullptr) return Did::kNothing;
  if (CutOff() || Stuck()) return Did::kMuch;
  // Written first: what is answered earlier frees the peer earlier.
  const bool wrote = GoOnWriting();
  if (const Did did = ReadOne(); did != Did::kNothing) return did;
  if (Linger() || wrote) return Did::kMuch;
  if (!pipe_->gone().has_value()) return Did::kNothing;
  if (!answered_) {
    Refused(*pipe_->gone());
  } else if (lingers_) {
    End(absl::OkStatus());
  } else {
    End(side_ == Side::kShard ? absl::CancelledError("the peer went away")
                              : absl::UnavailableError(absl::StrCat(peer_, ": ", pipe_->gone()->message())));
  }
  return Did::kMuch;
}

bool Stream::CutOff() {
  if ((answered_ && !closing_) || In(absl::ZeroDuration()) < cut_at_) return false;
  if (!answered_) {  // nobody may have looked there for as long
    OnSocket(0);
    (void)ReadOne();
  }
  if (answered_ && !closing_) return true;
  if (answered_) {
    End(lingers_ ? absl::OkStatus() : absl::CancelledError("the peer did not read"));
  } else {
    Refused(absl::DeadlineExceededError("it does not answer"));
  }
  cut_at_ = kNever;  // over: the loop need not look at the clock
  return true;
}

bool Stream::Stuck() {
  if (!blocked_ || stuck_at_ == kNever || In(absl::ZeroDuration()) < stuck_at_) return false;
  if (pipe_->HasRoom()) return false;  // it has just made some
  End(absl::UnavailableError(
      absl::StrCat(peer_, ": it has read nothing for ", absl::FormatDuration(stuck_max_))));
  stuck_at_ = kNever;
  return true;
}

bool Stream::Linger() {
  if (!lingers_ || !pipe_->HasBytes()) return false;
  pipe_->Discard();
  return true;
}

bool Stream::MayRead() {
  if (closing_ || !pipe_->HasBytes()) return false;
  if (side_ == Side::kClient) return true;
  return !pipe_->gone().has_value() && (pipe_->amid_frame() || handler_->TakesFrame());
}

Stream::Did Stream::ReadOne() {
  if (!MayRead()) return Did::kNothing;
  absl::Cord frame;
  const Pipe::Got got = pipe_->Next(&frame);
  if (!answered_) Heed();
  switch (got) {
    case Pipe::Got::kNothing:
      return Did::kNothing;
    case Pipe::Got::kPiece:
      return Did::kMuch;
    case Pipe::Got::kFrame: {
      const Did did = frame.size() <= kSmallFrame ? Did::kLittle : Did::kMuch;
      handler_->OnFrame(std::move(frame));
      return did;
    }
    case Pipe::Got::kEnd: {
      const absl::Status said = DecodeEnd(frame);
      End(said.ok() ? absl::UnavailableError(absl::StrCat(peer_, " closed the stream"))
                    : absl::Status(said.code(), absl::StrCat(peer_, ": ", said.message())));
      return Did::kMuch;
    }
    case Pipe::Got::kDamaged:
      break;
  }
  End(absl::UnavailableError(
      absl::StrCat(peer_, ": broke the rules of what carries the stream: ", pipe_->problem().message())));
  return Did::kMuch;
}

bool Stream::TellEnd() {
  absl::Status why;
  {
    MutexLock lock(&mutex_);
    // The thread that writes wakes the loop when it is done. Without a pipe nobody writes.
    if (pipe_ != nullptr && busy_ && !blocked_) return false;
    busy_ = true;  // nobody writes any more
    blocked_ = false;
    why = *end_;
  }
  if (pipe_ != nullptr) pipe_->Shut();
  told_ = true;
  told_answer_ = nullptr;
  std::exchange(handler_, nullptr)->OnBroken(std::move(why));
  return true;
}

bool Stream::Sleep() {
  if (told_) return true;
  if (pipe_ == nullptr) return !ending_;
  if (ending_) {
    MutexLock lock(&mutex_);
    return busy_ && !blocked_;
  }
  if (pipe_->gone().has_value() || (blocked_ && !pipe_->AwaitRoom())) return false;
  if (lingers_) return !pipe_->HasBytes();
  // A frame that is not taken need not wake the loop: ReadOn does.
  if (closing_ || (pipe_->HasBytes() && !MayRead())) return true;
  return pipe_->Sleep();
}

void Stream::Rise() {
  if (pipe_ != nullptr) pipe_->Rise();
}

void Stream::OnSocket(uint32_t events) {
  pipe_->OnSocket(events);
  if (!answered_) Heed();
}

void Stream::Heed() {
  if (!pipe_->answer().has_value()) return;
  if (!pipe_->answer()->ok()) return Refused(*pipe_->answer());
  answered_ = true;
  cut_at_ = kNever;
  if (told_answer_ != nullptr) std::exchange(told_answer_, nullptr)(absl::OkStatus());
}

void Stream::Refused(const absl::Status& why) {
  if (told_answer_ != nullptr) std::exchange(told_answer_, nullptr)(why);
  End(absl::UnavailableError(absl::StrCat(peer_, ": does not take the stream: ", why.message())));
}

}  // namespace paceline::carrier
