#include "libs/shm/stream.h"

#include <sys/socket.h>

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/world/real_clock.h"

namespace paceline::shm {
namespace {

// When a stream is closed with an error, its peer gets this long to read what is under way.
constexpr absl::Duration kCloseGrace = absl::Seconds(2);
// A shard answers at once. One that accepts no more, for want of descriptors or because it stands still, may
// still serve connections that it has: its client goes over TCP before it gives up.
constexpr absl::Duration kAnswerTimeout = absl::Seconds(4);
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
      region_(std::move(parts.region)),
      socket_(std::move(parts.socket)),
      refused_(std::move(parts.refused)),
      handler_(std::move(parts.handler)),
      frames_out_(side_ == Side::kShard ? region_->WriterToClient() : region_->WriterToShard()),
      frames_in_(side_ == Side::kShard ? region_->ReaderAtShard() : region_->ReaderAtClient(),
                 parts.frame_bytes_max),
      answered_(side_ == Side::kShard),
      cut_at_(answered_ ? kNever : In(kAnswerTimeout)),
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
  // The bell may have rung before blocked_ was set, and been heard by a loop that saw nothing to do: it looks
  // once more.
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

// -- writing --

bool Stream::WriteOn() {
  size_t begun = 0;
  while (NextToWrite(begun)) {
    if (begun > kInOneGo && WaitForRoom()) return true;
    switch (frames_out_.Continue([this] { Bell(); })) {
      case FrameWriter::Progress::kWritten:
        break;
      case FrameWriter::Progress::kFull:
        if (WaitForRoom()) return true;
        break;
      case FrameWriter::Progress::kDamaged:
        End(absl::UnavailableError(absl::StrCat(peer_, ": broke the rules of the ring that it reads")));
        break;  // NextToWrite finds the end
    }
  }
  return false;
}

bool Stream::NextToWrite(size_t& begun) {
  while (true) {
    if (!ending_ && frames_out_.writing()) return true;
    absl::Cord frame;
    if (!ending_ && !said_end_ && handler_->NextFrame(&frame)) {
      begun += frame.size();
      frames_out_.Begin(FrameKind::kFrame, std::move(frame));
      return true;
    }
    MutexLock lock(&mutex_);
    if (!end_.has_value()) {
      if (std::exchange(kicked_, false)) continue;
      if (close_.has_value() && !said_end_) {
        said_end_ = true;
        frames_out_.Begin(FrameKind::kEnd, EncodeEnd(*close_));
        return true;
      }
      if (said_end_) end_ = absl::OkStatus();
    }
    busy_ = false;
    if (!end_.has_value()) return false;
    break;
  }
  ending_ = true;
  loop_->Wake();  // it waits for this write to end
  return false;
}

bool Stream::WaitForRoom() {
  MutexLock lock(&mutex_);
  if (end_.has_value()) return false;
  stuck_at_ = In(stuck_max_);
  blocked_ = true;
  return true;
}

bool Stream::GoOnWriting() {
  if (!blocked_ || !frames_out_.CanContinue()) return false;
  {
    MutexLock lock(&mutex_);
    blocked_ = false;
    stuck_at_ = kNever;
  }
  frames_out_.Rise();
  WriteOn();
  return true;
}

// -- the loop's turn --

bool Stream::Step() {
  if (told_) return false;
  if (ending_) return TellEnd();
  if (CutOff() || Stuck()) return true;
  // Written first: what is answered earlier frees the peer earlier.
  const bool wrote = GoOnWriting();
  if (ReadOne() || wrote) return true;
  if (!hung_up_) return false;
  End(side_ == Side::kShard ? absl::CancelledError("the peer went away")
                            : absl::UnavailableError(absl::StrCat(peer_, ": it is gone")));
  return true;
}

bool Stream::CutOff() {
  if ((answered_ && !closing_) || In(absl::ZeroDuration()) < cut_at_) return false;
  if (!answered_) OnSocket();  // nobody may have looked there for as long
  if (answered_ && !closing_) return true;
  answered_ ? End(absl::CancelledError("the peer did not read"))
            : Refused(absl::UnavailableError("it does not answer"));
  cut_at_ = kNever;  // over: the loop need not look at the clock
  return true;
}

bool Stream::Stuck() {
  if (!blocked_ || stuck_at_ == kNever || In(absl::ZeroDuration()) < stuck_at_) return false;
  if (frames_out_.CanContinue()) return false;  // it has just made some
  End(absl::UnavailableError(
      absl::StrCat(peer_, ": it has read nothing for ", absl::FormatDuration(stuck_max_))));
  stuck_at_ = kNever;
  return true;
}

bool Stream::MayRead() {
  if (closing_ || !frames_in_.HasBytes()) return false;
  if (side_ == Side::kClient) return true;
  return !hung_up_ && (frames_in_.amid_frame() || handler_->TakesFrame());
}

bool Stream::ReadOne() {
  if (!MayRead()) return false;
  absl::Cord frame;
  switch (frames_in_.Next(&frame, [this] { Bell(); })) {
    case FrameReader::Got::kNothing:
      return false;
    case FrameReader::Got::kPiece:
      return true;
    case FrameReader::Got::kFrame:
      handler_->OnFrame(std::move(frame));
      return true;
    case FrameReader::Got::kEnd: {
      const absl::Status said = DecodeEnd(frame);
      End(said.ok() ? absl::UnavailableError(absl::StrCat(peer_, " closed the stream"))
                    : absl::Status(said.code(), absl::StrCat(peer_, ": ", said.message())));
      return true;
    }
    case FrameReader::Got::kDamaged:
      break;
  }
  End(absl::UnavailableError(
      absl::StrCat(peer_, ": broke the rules of shared memory: ", frames_in_.problem().message())));
  return true;
}

bool Stream::TellEnd() {
  absl::Status why;
  {
    MutexLock lock(&mutex_);
    if (busy_ && !blocked_) return false;  // the thread that writes wakes the loop when it is done
    busy_ = true;                          // nobody writes any more
    blocked_ = false;
    why = *end_;
  }
  (void)shutdown(socket_.get(), SHUT_RDWR);
  told_ = true;
  refused_ = nullptr;
  std::exchange(handler_, nullptr)->OnBroken(std::move(why));
  return true;
}

bool Stream::Sleep() {
  if (told_) return true;
  if (ending_) {
    MutexLock lock(&mutex_);
    return busy_ && !blocked_;
  }
  if (hung_up_ || (blocked_ && !frames_out_.AwaitRoom())) return false;
  // A frame that is not taken need not ring: ReadOn wakes the loop.
  if (closing_ || (frames_in_.HasBytes() && !MayRead())) return true;
  return frames_in_.Sleep();
}

void Stream::Rise() {
  frames_in_.Rise();
}

void Stream::OnSocket() {
  const absl::StatusOr<std::string> message = TakeMessage(socket_.get());
  if (absl::IsUnavailable(message.status())) {
    hung_up_ = true;
    frames_in_.Freeze();
    if (!answered_) Refused(message.status());
    return;
  }
  if (answered_ || !message.ok()) return;
  absl::Status taken;
  if (!ParseAnswer(*message, &taken)) taken = absl::UnavailableError("its answer has another form");
  if (!taken.ok()) return Refused(taken);
  answered_ = true;
  cut_at_ = kNever;
  refused_ = nullptr;
}

void Stream::Refused(const absl::Status& why) {
  if (refused_ != nullptr) std::exchange(refused_, nullptr)(why);
  End(absl::UnavailableError(absl::StrCat(peer_, ": does not take shared memory: ", why.message())));
}

}  // namespace paceline::shm
