#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "libs/carrier/descriptor.h"
#include "libs/carrier/pipe.h"

namespace paceline::tcp {

// Writes frames to a socket, each with one system call where the kernel has room for it.
class SocketWriter {
 public:
  // `socket` does not block, and outlives the writer.
  explicit SocketWriter(int socket) : socket_(socket) {}

  void Begin(carrier::FrameKind kind, absl::Cord bytes);
  bool writing() const { return !parts_.empty(); }
  // Forgets the frame, of which nothing more is to be written.
  void LetGo();
  // A connection that is over counts as full for good: what came before its end, and why it ended, the
  // reader finds out.
  carrier::Pipe::Wrote WriteOn();
  // The kernel may have room. Thread-safe, like OnRoom.
  bool HasRoom() const { return has_room_; }
  // The socket says that the kernel has room.
  void OnRoom() { has_room_ = true; }

 private:
  const int socket_;
  absl::Cord frame_;
  carrier::FrameHeader header_;
  std::vector<iovec> parts_;  // of the frame and its header, what is left from part_ on
  size_t part_ = 0;
  std::atomic<bool> has_room_{true};
};

// Reads frames from a socket. The bytes of a large one come straight to where they stay; of small ones, many
// come with one system call.
class SocketReader {
 public:
  // `awaits_answer`: before the first frame kMagic comes.
  SocketReader(int socket, bool awaits_answer, uint64_t frame_bytes_max);

  carrier::Pipe::Got Next(absl::Cord* frame);
  // What comes is of no use any more: drops some of it.
  void Discard();
  bool HasBytes() const { return readable_ || HasAhead(); }
  bool amid_frame() const { return amid_frame_; }
  // The socket says that there is something to read; `ended`: its end, if nothing else.
  void OnReadable(bool ended);
  const absl::Status& problem() const { return problem_; }
  const std::optional<absl::Status>& gone() const { return gone_; }
  const std::optional<absl::Status>& answer() const { return answer_; }

 private:
  size_t ahead() const { return ahead_end_ - ahead_begin_; }
  // What was read ahead gets the frame on.
  bool HasAhead() const { return ahead() >= (amid_frame_ ? 1 : sizeof(carrier::FrameHeader)); }
  // Takes from what was read ahead. True: a frame is complete.
  bool TakeAhead();
  void TakeAnswer();
  void TakeHeader();
  // Reads once: the rest of the frame, and ahead. False: nothing came.
  bool Receive();
  void NothingCame(ssize_t got);

  const int socket_;
  const uint64_t frame_bytes_max_;
  bool readable_ = true;  // recv was not asked since the socket said so, or had more than it was asked for
  bool ended_ = false;    // the socket has told of an end that recv has not come to yet
  bool amid_frame_ = false;
  carrier::FrameHeader header_;
  carrier::FrameBytes bytes_;
  const std::unique_ptr<char[]> ahead_;
  size_t ahead_begin_ = 0;
  size_t ahead_end_ = 0;
  absl::Status problem_;
  std::optional<absl::Status> gone_;
  std::optional<absl::Status> answer_;
};

// A TCP connection that carries one stream.
class SocketPipe final : public carrier::Pipe {
 public:
  // `socket` is connected, does not block, and the preamble went over it. At the shard this sends the answer;
  // at the client the answer is awaited. Frames of more than `frame_bytes_max` bytes end the stream.
  SocketPipe(carrier::Side side, carrier::Descriptor socket, uint64_t frame_bytes_max);

  void Begin(carrier::FrameKind kind, absl::Cord bytes) override { out_.Begin(kind, std::move(bytes)); }
  bool writing() const override { return out_.writing(); }
  Wrote WriteOn() override { return out_.WriteOn(); }
  bool FinishWrites() override;
  bool AwaitRoom() override { return !out_.HasRoom(); }
  bool HasRoom() override { return out_.HasRoom(); }
  void RiseWriter() override {}

  Got Next(absl::Cord* frame) override { return in_.Next(frame); }
  bool HasBytes() override { return in_.HasBytes(); }
  bool amid_frame() const override { return in_.amid_frame(); }
  bool Sleep() override { return !in_.HasBytes(); }
  void Rise() override {}
  const absl::Status& problem() const override { return in_.problem(); }
  void Discard() override { in_.Discard(); }

  int socket() const override { return socket_.get(); }
  void OnSocket(uint32_t events) override;
  bool needs_socket() const override { return true; }
  const std::optional<absl::Status>& gone() const override { return gone_.has_value() ? gone_ : in_.gone(); }
  const std::optional<absl::Status>& answer() const override { return in_.answer(); }
  void Shut() override;

 private:
  const carrier::Side side_;
  const carrier::Descriptor socket_;
  SocketWriter out_;
  SocketReader in_;
  std::optional<absl::Status> gone_;  // found before the reader came to it
};

}  // namespace paceline::tcp
