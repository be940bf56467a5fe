#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "google/protobuf/message_lite.h"

// Frames of the data plane. On the wire a frame is an ordinary Protobuf message, so that any gRPC client can
// make one. This code keeps its two big fields, keys (15) and values (16), out of Protobuf: they travel as
// Cords that share the sender's memory or the receive buffer. Copying them through Protobuf would cost about
// 1.7 times the CPU of a whole 1 MB frame.
namespace paceline::wire {

inline constexpr int kKeysField = 15;
inline constexpr int kValuesField = 16;

template <class Message>
struct Frame {
  Message head;  // everything but the two blobs: its keys and values fields stay empty
  absl::Cord keys;
  absl::Cord values;

  size_t BlobBytes() const { return keys.size() + values.size(); }
};

// A frame's bytes taken apart without interpreting the header. Shares memory with `bytes`.
struct RawFrame {
  std::string head;
  absl::Cord keys;
  absl::Cord values;
};

// INVALID_ARGUMENT if `bytes` is not a well-formed Protobuf message. If a blob field occurs more than once
// its last occurrence counts, as in Protobuf.
absl::StatusOr<RawFrame> SplitFrame(const absl::Cord& bytes);

// The same for a frame in one contiguous piece whose blobs follow its header, as JoinFrame makes them; costs
// a fraction of SplitFrame. nullopt: the frame has another form or is malformed; SplitFrame tells which.
struct FlatFrame {
  absl::string_view head;
  absl::string_view keys;
  absl::string_view values;
};
std::optional<FlatFrame> SplitFlat(absl::string_view bytes);

// The frame of `head` and the two blobs. Copies only blobs of up to a few hundred bytes.
absl::Cord JoinFrame(const google::protobuf::MessageLite& head, const absl::Cord& keys,
                     const absl::Cord& values);

// The same bytes, all copied into one contiguous piece: cheaper for small frames.
absl::Cord JoinFlat(const google::protobuf::MessageLite& head, absl::string_view keys,
                    absl::string_view values);

template <class Message>
absl::Cord Encode(const Frame<Message>& frame) {
  return JoinFrame(frame.head, frame.keys, frame.values);
}

template <class Message>
absl::StatusOr<Frame<Message>> Decode(const absl::Cord& bytes) {
  absl::StatusOr<RawFrame> raw = SplitFrame(bytes);
  if (!raw.ok()) return raw.status();
  Frame<Message> frame;
  if (!frame.head.ParseFromString(raw->head)) {
    return absl::InvalidArgumentError("frame: its header is not a valid " + frame.head.GetTypeName() +
                                      "; expected the message of paceline/v1 that this stream carries");
  }
  frame.keys = std::move(raw->keys);
  frame.values = std::move(raw->values);
  return frame;
}

// The bytes of a Cord in one contiguous piece: borrowed if they already are contiguous, copied otherwise.
// Keeps borrowed bytes alive.
class FlatBytes {
 public:
  FlatBytes() = default;
  explicit FlatBytes(absl::Cord cord);
  FlatBytes(const FlatBytes&) = delete;
  FlatBytes& operator=(const FlatBytes&) = delete;

  absl::string_view view() const { return view_; }

 private:
  absl::Cord cord_;
  std::unique_ptr<char[]> copy_;
  absl::string_view view_;
};

// Cuts a Cord into consecutive pieces, each contiguous: borrowed where the Cord's chunks are adjacent in
// memory, copied otherwise. Most of a big frame that arrived in a few buffers is borrowed.
class FlatPieces {
 public:
  explicit FlatPieces(absl::Cord cord) : cord_(std::move(cord)), at_(cord_.char_begin()) {}
  FlatPieces(const FlatPieces&) = delete;
  FlatPieces& operator=(const FlatPieces&) = delete;

  size_t size() const { return cord_.size(); }
  // The next `bytes` bytes; valid as long as this object. REQUIRES: that many are left.
  absl::string_view Next(size_t bytes);

 private:
  const absl::Cord cord_;
  absl::Cord::CharIterator at_;
  std::vector<std::unique_ptr<char[]>> copies_;
};

// Fewer bytes are copied instead of shared: their owner may be a buffer of a megabyte.
inline constexpr size_t kWorthSharing = size_t{16} << 10;

// A Cord that borrows `bytes` and holds `owner` until the last user is gone; a copy if it has less than
// `from`.
template <class Owner>
absl::Cord Borrow(absl::string_view bytes, Owner owner, size_t from = kWorthSharing) {
  if (bytes.size() < from) return absl::Cord(bytes);
  return absl::MakeCordFromExternal(bytes, [owner = std::move(owner)](absl::string_view) {});
}

}  // namespace paceline::wire
