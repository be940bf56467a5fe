#include "libs/shm/frames.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paceline::shm {
namespace {

// So many bytes are shown, or given back, at once: the reader copies them while they are in the caches, and
// the writer writes the next ones meanwhile.
constexpr size_t kPiece = size_t{64} << 10;

}  // namespace

void FrameWriter::Begin(carrier::FrameKind kind, absl::Cord bytes) {
  frame_ = std::move(bytes);
  at_ = frame_.char_begin();
  left_ = frame_.size();
  header_ = {.size = static_cast<uint32_t>(left_), .kind = kind};
  header_left_ = sizeof(header_);
  writing_ = true;
}

void FrameWriter::LetGo() {
  header_left_ = left_ = 0;
  at_ = {};
  frame_.Clear();
}

absl::string_view FrameWriter::NextPiece() const {
  if (header_left_ > 0) {
    return {reinterpret_cast<const char*>(&header_) + sizeof(header_) - header_left_, header_left_};
  }
  return absl::Cord::ChunkRemaining(at_);
}

void FrameWriter::Advance(size_t bytes) {
  if (header_left_ > 0) {
    header_left_ -= bytes;
    return;
  }
  absl::Cord::Advance(&at_, bytes);
  left_ -= bytes;
}

carrier::Pipe::Wrote FrameWriter::Continue(Bell bell) {
  size_t hidden = 0;
  const auto publish = [&] {
    hidden = 0;
    if (ring_.Publish()) bell();
  };
  while (header_left_ > 0 || left_ > 0) {
    const absl::string_view piece = NextPiece().substr(0, kPiece - hidden);
    const size_t put = ring_.Put(piece.data(), piece.size());
    if (ring_.damaged()) return carrier::Pipe::Wrote::kDamaged;
    Advance(put);
    hidden += put;
    if (hidden == kPiece || put < piece.size()) publish();
    if (put < piece.size() && ring_.AwaitRoom()) return carrier::Pipe::Wrote::kFull;
    if (ring_.damaged()) return carrier::Pipe::Wrote::kDamaged;
  }
  if (hidden > 0) publish();
  writing_ = false;
  at_ = absl::Cord::CharIterator();
  frame_.Clear();
  return carrier::Pipe::Wrote::kAll;
}

carrier::Pipe::Got FrameReader::Damaged(absl::Status why) {
  problem_ = std::move(why);
  return Got::kDamaged;
}

carrier::Pipe::Got FrameReader::Next(absl::Cord* frame, Bell bell) {
  if (!problem_.ok()) return Got::kDamaged;
  size_t taken = 0;
  if (header_got_ < sizeof(header_)) {
    char* const to = reinterpret_cast<char*>(&header_) + header_got_;
    taken = ring_.Take(to, sizeof(header_) - header_got_);
    header_got_ += taken;
    if (header_got_ == sizeof(header_)) {
      if (absl::Status fit = carrier::CheckHeader(header_, frame_bytes_max_); !fit.ok()) {
        return Damaged(std::move(fit));
      }
      bytes_.Begin(header_.size);
    }
  }
  while (header_got_ == sizeof(header_) && bytes_.left() > 0) {
    const size_t piece = ring_.Take(bytes_.at(), std::min(kPiece, bytes_.left()));
    if (piece == 0) break;
    taken += piece;
    bytes_.Advance(piece);
    if (bytes_.left() > 0 && ring_.Release()) bell();
  }
  if (ring_.damaged()) return Damaged(absl::InvalidArgumentError("a position in the ring cannot be true"));
  if (taken > 0 && ring_.Release()) bell();
  if (header_got_ < sizeof(header_) || bytes_.left() > 0) return taken > 0 ? Got::kPiece : Got::kNothing;
  header_got_ = 0;
  *frame = bytes_.Take();
  return header_.kind == carrier::FrameKind::kEnd ? Got::kEnd : Got::kFrame;
}

}  // namespace paceline::shm
