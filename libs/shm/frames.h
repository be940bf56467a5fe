#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "libs/carrier/frames.h"
#include "libs/carrier/pipe.h"
#include "libs/shm/ring.h"

// Frames over a ring. One that is larger than the ring travels piece by piece.
namespace paceline::shm {

// Wakes the peer.
using Bell = absl::FunctionRef<void()>;

class FrameWriter {
 public:
  explicit FrameWriter(RingWriter ring) : ring_(ring) {}
  FrameWriter(const FrameWriter&) = delete;
  FrameWriter& operator=(const FrameWriter&) = delete;

  // REQUIRES: !writing().
  void Begin(carrier::FrameKind kind, absl::Cord bytes);
  // A frame was begun and is not written to its end.
  bool writing() const { return writing_; }

  // Forgets the frame, of which nothing more is to be written.
  void LetGo();

  // Writes what there is room for.
  carrier::Pipe::Wrote Continue(Bell bell);
  // True: there is no room, and the reader will wake the writer.
  bool AwaitRoom() { return ring_.AwaitRoom(); }
  void Rise() { ring_.Rise(); }
  // True: Continue gets somewhere, if only to the end of a damaged ring.
  bool CanContinue() { return ring_.HasRoom() || ring_.damaged(); }

 private:
  absl::string_view NextPiece() const;
  void Advance(size_t bytes);

  RingWriter ring_;
  bool writing_ = false;
  carrier::FrameHeader header_;
  size_t header_left_ = 0;
  absl::Cord frame_;
  absl::Cord::CharIterator at_;
  size_t left_ = 0;
};

class FrameReader {
 public:
  // A frame may have at most `frame_bytes_max` bytes.
  FrameReader(RingReader ring, uint64_t frame_bytes_max) : ring_(ring), frame_bytes_max_(frame_bytes_max) {}

  // The bytes of *frame are a private copy: the writer may change the ring at any time.
  carrier::Pipe::Got Next(absl::Cord* frame, Bell bell);
  bool HasBytes() { return ring_.HasBytes() || ring_.damaged(); }
  // True: the next frame has been begun.
  bool amid_frame() const { return header_got_ > 0; }
  bool Sleep() { return ring_.Sleep(); }
  void Rise() { ring_.Rise(); }
  void Freeze() { ring_.Freeze(); }
  const absl::Status& problem() const { return problem_; }

 private:
  using Got = carrier::Pipe::Got;
  Got Damaged(absl::Status why);

  RingReader ring_;
  const uint64_t frame_bytes_max_;
  absl::Status problem_;
  carrier::FrameHeader header_;
  size_t header_got_ = 0;
  carrier::FrameBytes bytes_;
};

}  // namespace paceline::shm
