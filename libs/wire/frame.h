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

// Frames of the data plane. On the wire a frame is one ordinary Protobuf message, so that any gRPC client can
// make one; here its two big fields, keys (15) and values (16), are kept out of Protobuf's hands and travel
// as Cords that share the sender's or the receive buffer's memory. Copying those fields through Protobuf
// costs about 1.7 times the CPU of a whole 1 MB frame.
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

// INVALID_ARGUMENT if `bytes` is not a well-formed Protobuf message. A blob field that occurs more than once
// counts as its last occurrence, as Protobuf has it.
absl::StatusOr<RawFrame> SplitFrame(const absl::Cord& bytes);

// The same for a frame that lies in one piece with its blobs after its header, as JoinFrame makes them: a
// fraction of the work. nullopt: it is another one, or malformed; SplitFrame knows.
struct FlatFrame {
  absl::string_view head;
  absl::string_view keys;
  absl::string_view values;
};
std::optional<FlatFrame> SplitFlat(absl::string_view bytes);

// The frame of `head` and the two blobs. Does not copy blobs of more than a few hundred bytes.
absl::Cord JoinFrame(const google::protobuf::MessageLite& head, const absl::Cord& keys,
                     const absl::Cord& values);

// The same bytes, all copied into one piece: worth it for small frames.
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

// A Cord's bytes in one piece: borrowed where they already are, copied otherwise. Keeps what it borrows
// alive.
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

// A Cord's bytes in pieces that follow each other, each in itself contiguous: borrowed where its chunks
// follow each other in memory, copied otherwise. Of a big frame that came in a few buffers most is borrowed
// so.
class FlatPieces {
 public:
  explicit FlatPieces(absl::Cord cord) : cord_(std::move(cord)), at_(cord_.char_begin()) {}
  FlatPieces(const FlatPieces&) = delete;
  FlatPieces& operator=(const FlatPieces&) = delete;

  size_t size() const { return cord_.size(); }
  // The next `bytes` bytes; good as long as this object. REQUIRES: there are so many.
  absl::string_view Next(size_t bytes);

 private:
  const absl::Cord cord_;
  absl::Cord::CharIterator at_;
  std::vector<std::unique_ptr<char[]>> copies_;
};

// A Cord that borrows `bytes` and holds `owner` until nobody uses them. Small ones are copied: the owner may
// be a buffer of a megabyte.
template <class Owner>
absl::Cord Borrow(absl::string_view bytes, Owner owner) {
  constexpr size_t kWorthSharing = size_t{16} << 10;
  if (bytes.size() < kWorthSharing) return absl::Cord(bytes);
  return absl::MakeCordFromExternal(bytes, [owner = std::move(owner)](absl::string_view) {});
}

}  // namespace paceline::wire
