#include "libs/tcp/socket_pipe.h"

#include <limits.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "libs/tcp/preamble.h"

namespace paceline::tcp {
namespace {

// So many bytes are read ahead of the frame that is being read, while frames are small. What was read ahead
// is copied once more, so behind a large one, which the next is most likely as well, only a header is.
constexpr size_t kAhead = size_t{32} << 10;
constexpr size_t kLarge = size_t{8} << 10;

}  // namespace

// -- writing --

void SocketWriter::Begin(carrier::FrameKind kind, absl::Cord bytes) {
  frame_ = std::move(bytes);
  header_ = {.size = static_cast<uint32_t>(frame_.size()), .kind = kind};
  parts_.push_back({.iov_base = &header_, .iov_len = sizeof(header_)});
  for (const absl::string_view chunk : frame_.Chunks()) {
    parts_.push_back({.iov_base = const_cast<char*>(chunk.data()), .iov_len = chunk.size()});
  }
  part_ = 0;
}

carrier::Pipe::Wrote SocketWriter::WriteOn() {
  while (part_ < parts_.size()) {
    msghdr message = {};
    message.msg_iov = &parts_[part_];
    message.msg_iovlen = std::min<size_t>(parts_.size() - part_, IOV_MAX);
    // First: the loop may hear of room before this call has returned.
    has_room_ = false;
    const ssize_t sent = sendmsg(socket_, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return carrier::Pipe::Wrote::kFull;
    has_room_ = true;
    auto left = static_cast<size_t>(sent);
    while (part_ < parts_.size() && left >= parts_[part_].iov_len) left -= parts_[part_++].iov_len;
    if (left == 0) continue;
    parts_[part_].iov_base = static_cast<char*>(parts_[part_].iov_base) + left;
    parts_[part_].iov_len -= left;
  }
  LetGo();
  return carrier::Pipe::Wrote::kAll;
}

void SocketWriter::LetGo() {
  parts_.clear();
  frame_.Clear();
}

// -- reading --

SocketReader::SocketReader(int socket, bool awaits_answer, uint64_t frame_bytes_max)
    : socket_(socket), frame_bytes_max_(frame_bytes_max), ahead_(new char[kAhead]) {
  if (!awaits_answer) answer_ = absl::OkStatus();
}

carrier::Pipe::Got SocketReader::Next(absl::Cord* frame) {
  using Got = carrier::Pipe::Got;
  bool whole = problem_.ok() && TakeAhead();
  if (!whole && problem_.ok()) {
    if (!readable_ || !Receive()) return Got::kNothing;
    whole = TakeAhead();
  }
  if (!problem_.ok()) return Got::kDamaged;
  if (!whole) return Got::kPiece;
  amid_frame_ = false;
  *frame = bytes_.Take();
  return header_.kind == carrier::FrameKind::kEnd ? Got::kEnd : Got::kFrame;
}

bool SocketReader::TakeAhead() {
  if (!answer_.has_value()) TakeAnswer();
  if (!amid_frame_) TakeHeader();
  if (!amid_frame_) return false;
  const size_t piece = std::min(ahead(), bytes_.left());
  if (piece > 0) std::memcpy(bytes_.at(), ahead_.get() + ahead_begin_, piece);
  bytes_.Advance(piece);
  ahead_begin_ += piece;
  return bytes_.left() == 0;
}

void SocketReader::TakeAnswer() {
  if (ahead() < sizeof(kMagic)) return;
  if (std::memcmp(ahead_.get() + ahead_begin_, kMagic, sizeof(kMagic)) == 0) {
    answer_ = absl::OkStatus();
  } else {
    answer_ = absl::UnimplementedError("it takes gRPC only");
    problem_ = *answer_;
  }
  ahead_begin_ += sizeof(kMagic);
}

void SocketReader::TakeHeader() {
  if (!answer_.has_value() || !problem_.ok() || ahead() < sizeof(header_)) return;
  std::memcpy(&header_, ahead_.get() + ahead_begin_, sizeof(header_));
  ahead_begin_ += sizeof(header_);
  problem_ = carrier::CheckHeader(header_, frame_bytes_max_);
  if (!problem_.ok()) return;
  bytes_.Begin(header_.size);
  amid_frame_ = true;
}

bool SocketReader::Receive() {
  // Amid a frame nothing is left of what was read ahead; before one, less than a header may be.
  std::memmove(ahead_.get(), ahead_.get() + ahead_begin_, ahead());
  ahead_end_ = ahead();
  ahead_begin_ = 0;
  const size_t rest = amid_frame_ ? bytes_.left() : 0;
  const size_t room = (header_.size > kLarge ? sizeof(header_) : kAhead) - ahead_end_;
  iovec parts[] = {{.iov_base = rest > 0 ? bytes_.at() : nullptr, .iov_len = rest},
                   {.iov_base = ahead_.get() + ahead_end_, .iov_len = room}};
  msghdr message = {};
  message.msg_iov = rest > 0 ? parts : parts + 1;
  message.msg_iovlen = rest > 0 ? 2 : 1;
  const ssize_t got = recvmsg(socket_, &message, MSG_DONTWAIT);
  if (got <= 0) {
    NothingCame(got);
    return false;
  }
  const auto came = static_cast<size_t>(got);
  // The socket tells when there is more; of its end it has told already.
  if (came < rest + room && !ended_) readable_ = false;
  const size_t direct = std::min(came, rest);
  if (direct > 0) bytes_.Advance(direct);
  ahead_end_ += came - direct;
  return true;
}

void SocketReader::NothingCame(ssize_t got) {
  if (got < 0 && errno == EINTR) return;
  readable_ = false;
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
  gone_ = absl::UnavailableError(got == 0 ? "it is gone" : std::strerror(errno));
}

void SocketReader::Discard() {
  amid_frame_ = false;
  header_ = {};
  ahead_begin_ = ahead_end_ = 0;
  (void)Receive();
  ahead_begin_ = ahead_end_ = 0;
}

void SocketReader::OnReadable(bool ended) {
  readable_ = true;
  ended_ = ended_ || ended;
}

// -- both --

SocketPipe::SocketPipe(carrier::Side side, carrier::Descriptor socket, uint64_t frame_bytes_max)
    : side_(side),
      socket_(std::move(socket)),
      out_(socket_.get()),
      in_(socket_.get(), /*awaits_answer=*/side == carrier::Side::kClient, frame_bytes_max) {
  if (side == carrier::Side::kShard)
    (void)!send(socket_.get(), kMagic, sizeof(kMagic), MSG_DONTWAIT | MSG_NOSIGNAL);
}

// A socket that is closed with unread bytes makes the peer forget what it has not read.
bool SocketPipe::FinishWrites() {
  (void)shutdown(socket_.get(), SHUT_WR);
  return false;
}

void SocketPipe::OnSocket(uint32_t events) {
  constexpr uint32_t kEnded = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
  const bool ended = (events & kEnded) != 0;
  // Without events: whoever asks wants to know now.
  if (events == 0 || ended || (events & EPOLLIN) != 0) in_.OnReadable(ended);
  // What a client has sent and the shard has not read is lost with it.
  if (ended && side_ == carrier::Side::kShard) gone_ = absl::UnavailableError("it is gone");
  if ((events & EPOLLOUT) != 0) out_.OnRoom();
}

void SocketPipe::Shut() {
  out_.LetGo();
  (void)shutdown(socket_.get(), SHUT_RDWR);
}

}  // namespace paceline::tcp
