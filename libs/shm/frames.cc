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
constexpr size_t kMessageMax = 1024;

}  // namespace

void FrameWriter::Begin(FrameKind kind, absl::Cord bytes) {
  frame_ = std::move(bytes);
  at_ = frame_.char_begin();
  left_ = frame_.size();
  const auto size = static_cast<uint32_t>(left_);
  std::memcpy(header_, &size, sizeof(size));
  std::memcpy(header_ + sizeof(size), &kind, sizeof(kind));
  header_left_ = sizeof(header_);
  writing_ = true;
}

absl::string_view FrameWriter::NextPiece() const {
  if (header_left_ > 0) return {header_ + sizeof(header_) - header_left_, header_left_};
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

FrameWriter::Progress FrameWriter::Continue(Bell bell) {
  size_t hidden = 0;
  const auto publish = [&] {
    hidden = 0;
    if (ring_.Publish()) bell();
  };
  while (header_left_ > 0 || left_ > 0) {
    const absl::string_view piece = NextPiece().substr(0, kPiece - hidden);
    const size_t put = ring_.Put(piece.data(), piece.size());
    if (ring_.damaged()) return Progress::kDamaged;
    Advance(put);
    hidden += put;
    if (hidden == kPiece || put < piece.size()) publish();
    if (put < piece.size() && ring_.AwaitRoom()) return Progress::kFull;
    if (ring_.damaged()) return Progress::kDamaged;
  }
  if (hidden > 0) publish();
  writing_ = false;
  at_ = absl::Cord::CharIterator();
  frame_.Clear();
  return Progress::kWritten;
}

FrameReader::Got FrameReader::Damaged(absl::Status why) {
  problem_ = std::move(why);
  return Got::kDamaged;
}

bool FrameReader::ReadHeader() {
  uint32_t size = 0;
  uint32_t kind = 0;
  std::memcpy(&size, header_, sizeof(size));
  std::memcpy(&kind, header_ + sizeof(size), sizeof(kind));
  if (kind != static_cast<uint32_t>(FrameKind::kFrame) && kind != static_cast<uint32_t>(FrameKind::kEnd)) {
    problem_ = absl::InvalidArgumentError(absl::StrCat("a frame has kind ", kind, ", which is not known"));
    return false;
  }
  if (size > frame_bytes_max_) {
    problem_ = absl::ResourceExhaustedError(
        absl::StrCat("a frame has ", size, " bytes; at most ", frame_bytes_max_, " are taken"));
    return false;
  }
  kind_ = static_cast<FrameKind>(kind);
  size_ = size;
  got_ = 0;
  // Not a std::string, nor make_unique: they would write zeros to all of its memory first.
  if (size_ > kSmall) large_.reset(new char[size_]);
  return true;
}

FrameReader::Got FrameReader::Next(absl::Cord* frame, Bell bell) {
  if (!problem_.ok()) return Got::kDamaged;
  size_t taken = 0;
  if (header_got_ < sizeof(header_)) {
    taken = ring_.Take(header_ + header_got_, sizeof(header_) - header_got_);
    header_got_ += taken;
    if (header_got_ == sizeof(header_) && !ReadHeader()) return Got::kDamaged;
  }
  while (header_got_ == sizeof(header_) && got_ < size_) {
    char* const to = size_ > kSmall ? large_.get() : small_;
    const size_t piece = ring_.Take(to + got_, std::min(kPiece, size_ - got_));
    if (piece == 0) break;
    taken += piece;
    got_ += piece;
    if (got_ < size_ && ring_.Release()) bell();
  }
  if (ring_.damaged()) return Damaged(absl::InvalidArgumentError("a position in the ring cannot be true"));
  if (taken > 0 && ring_.Release()) bell();
  if (header_got_ < sizeof(header_) || got_ < size_) return taken > 0 ? Got::kPiece : Got::kNothing;
  header_got_ = 0;
  *frame = TakeFrame();
  return kind_ == FrameKind::kEnd ? Got::kEnd : Got::kFrame;
}

absl::Cord FrameReader::TakeFrame() {
  if (size_ <= kSmall) return absl::Cord(absl::string_view(small_, size_));
  const absl::string_view bytes(large_.get(), size_);
  return absl::MakeCordFromExternal(bytes, [owner = std::move(large_)](absl::string_view) {});
}

absl::Cord EncodeEnd(const absl::Status& status) {
  const auto code = static_cast<uint32_t>(status.code());
  std::string bytes(reinterpret_cast<const char*>(&code), sizeof(code));
  absl::StrAppend(&bytes, status.message().substr(0, kMessageMax));
  return absl::Cord(bytes);
}

absl::Status DecodeEnd(const absl::Cord& bytes) {
  uint32_t code = 0;
  if (bytes.size() < sizeof(code) || bytes.size() > sizeof(code) + kMessageMax) {
    return absl::InvalidArgumentError(absl::StrCat("the end of a stream has ", bytes.size(), " bytes"));
  }
  const std::string flat(bytes);
  std::memcpy(&code, flat.data(), sizeof(code));
  if (code > static_cast<uint32_t>(absl::StatusCode::kUnauthenticated)) {
    return absl::InvalidArgumentError(absl::StrCat("the end of a stream has code ", code));
  }
  return absl::Status(static_cast<absl::StatusCode>(code), flat.substr(sizeof(code)));
}

}  // namespace paceline::shm
