#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "libs/shm/ring.h"

// Frames over a ring. In the ring a frame is its length, its kind, and its bytes; one that is larger than the
// ring travels piece by piece.
namespace paceline::shm {

enum class FrameKind : uint32_t {
  kFrame = 1,
  kEnd = 2,  // the last one: the stream's final status
};

// Wakes the peer.
using Bell = absl::FunctionRef<void()>;

class FrameWriter {
 public:
  explicit FrameWriter(RingWriter ring) : ring_(ring) {}
  FrameWriter(const FrameWriter&) = delete;
  FrameWriter& operator=(const FrameWriter&) = delete;

  // REQUIRES: !writing().
  void Begin(FrameKind kind, absl::Cord bytes);
  // A frame was begun and is not written to its end.
  bool writing() const { return writing_; }

  enum class Progress {
    kWritten,
    kFull,     // the reader will wake the writer
    kDamaged,  // the reader has broken the ring's rules
  };
  // Writes what there is room for.
  Progress Continue(Bell bell);
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
  char header_[8];
  size_t header_left_ = 0;
  absl::Cord frame_;
  absl::Cord::CharIterator at_;
  size_t left_ = 0;
};

class FrameReader {
 public:
  // A frame may have at most `frame_bytes_max` bytes.
  FrameReader(RingReader ring, uint64_t frame_bytes_max) : ring_(ring), frame_bytes_max_(frame_bytes_max) {}

  enum class Got {
    kNothing,
    kPiece,    // of a frame that is not complete
    kFrame,    // a whole one: *frame
    kEnd,      // *frame holds the final status
    kDamaged,  // the writer has broken the rules: problem() says how
  };
  // The bytes of *frame are a private copy: the writer may change the ring at any time.
  Got Next(absl::Cord* frame, Bell bell);
  bool HasBytes() { return ring_.HasBytes() || ring_.damaged(); }
  // True: the next frame has been begun.
  bool amid_frame() const { return header_got_ > 0; }
  bool Sleep() { return ring_.Sleep(); }
  void Rise() { ring_.Rise(); }
  void Freeze() { ring_.Freeze(); }
  const absl::Status& problem() const { return problem_; }

 private:
  Got Damaged(absl::Status why);
  // False: the header breaks the rules.
  bool ReadHeader();
  absl::Cord TakeFrame();

  RingReader ring_;
  const uint64_t frame_bytes_max_;
  absl::Status problem_;
  char header_[8];
  size_t header_got_ = 0;
  FrameKind kind_ = FrameKind::kFrame;
  size_t size_ = 0;
  size_t got_ = 0;
  static constexpr size_t kSmall = 2048;  // so many bytes are copied once more instead of allocated for
  char small_[kSmall];
  std::unique_ptr<char[]> large_;
};

// The bytes of a frame of kind kEnd.
absl::Cord EncodeEnd(const absl::Status& status);
// INVALID_ARGUMENT: they are none.
absl::Status DecodeEnd(const absl::Cord& bytes);

}  // namespace paceline::shm
