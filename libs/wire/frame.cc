#include "libs/wire/frame.h"

#include <cstdint>
#include <cstring>

#include "absl/container/inlined_vector.h"
#include "libs/base/varint.h"

namespace paceline::wire {
namespace {

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError("frame: " + std::string(what) +
                                    "; expected the bytes of one Protobuf message of paceline/v1");
}

// Reads a Cord from front to back.
class Reader {
 public:
  explicit Reader(const absl::Cord& cord) : at_(cord.char_begin()), left_(cord.size()) {}

  bool done() const { return left_ == 0; }
  size_t left() const { return left_; }

  // Also appends the bytes read to `copy`.
  bool Varint(uint64_t* value, std::string* copy) {
    *value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (left_ == 0) return false;
      const auto byte = static_cast<uint8_t>(*at_);
      ++at_;
      --left_;
      copy->push_back(static_cast<char>(byte));
      if (shift < 64) *value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return true;
    }
    return false;
  }

  bool Bytes(uint64_t size, absl::Cord* out) {
    if (size > left_) return false;
    *out = absl::Cord::AdvanceAndRead(&at_, size);
    left_ -= size;
    return true;
  }

 private:
  absl::Cord::CharIterator at_;
  size_t left_;
};

bool SkipInto(Reader& reader, uint64_t size, std::string* head) {
  absl::Cord bytes;
  if (!reader.Bytes(size, &bytes)) return false;
  head->reserve(head->size() + size);
  for (absl::string_view chunk : bytes.Chunks()) head->append(chunk.data(), chunk.size());
  return true;
}

// The bytes in front of a blob.
std::string TagAndLength(int field, size_t length) {
  std::string bytes;
  AppendVarint(static_cast<uint64_t>(field) << 3 | kBytes, bytes);
  AppendVarint(length, bytes);
  return bytes;
}

// The bytes that the field with this tag takes, after its tag and, for kBytes, after its length. nullopt: a
// wire type that is not used, or a malformed number.
std::optional<uint64_t> SizeOfField(uint64_t tag, std::string_view& rest) {
  switch (tag & 7) {
    case kVarint:
      return TakeVarint(rest).ok() ? std::optional<uint64_t>(0) : std::nullopt;
    case kFixed64:
      return 8;
    case kFixed32:
      return 4;
    case kBytes:
      if (const auto size = TakeVarint(rest); size.ok()) return *size;
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<FlatFrame> SplitFlat(absl::string_view bytes) {
  FlatFrame frame;
  std::string_view rest(bytes.data(), bytes.size());
  bool in_head = true;
  while (!rest.empty()) {
    const size_t start = bytes.size() - rest.size();
    const auto tag = TakeVarint(rest);
    if (!tag.ok()) return std::nullopt;
    const std::optional<uint64_t> size = SizeOfField(*tag, rest);
    if (!size.has_value() || *size > rest.size()) return std::nullopt;
    const uint64_t field = *tag >> 3;
    const bool blob = (*tag & 7) == kBytes && (field == kKeysField || field == kValuesField);
    if (!blob && !in_head) return std::nullopt;
    if (blob) {
      if (in_head) frame.head = bytes.substr(0, start);
      in_head = false;
      (field == kKeysField ? frame.keys : frame.values) = absl::string_view(rest.data(), *size);
    }
    rest.remove_prefix(*size);
  }
  if (in_head) frame.head = bytes;
  return frame;
}

absl::Cord JoinFlat(const google::protobuf::MessageLite& head, absl::string_view keys,
                    absl::string_view values) {
  static thread_local std::string bytes;  // keeps its memory for the next call
  bytes.clear();
  head.AppendToString(&bytes);
  const auto append = [](int field, absl::string_view blob) {
    if (blob.empty()) return;
    AppendVarint(static_cast<uint64_t>(field) << 3 | kBytes, bytes);
    AppendVarint(blob.size(), bytes);
    bytes.append(blob.data(), blob.size());
  };
  append(kKeysField, keys);
  append(kValuesField, values);
  return absl::Cord(bytes);
}

absl::StatusOr<RawFrame> SplitFrame(const absl::Cord& bytes) {
  RawFrame frame;
  Reader reader(bytes);
  while (!reader.done()) {
    const size_t field_start = frame.head.size();
    uint64_t tag = 0;
    if (!reader.Varint(&tag, &frame.head)) return Malformed("a field's tag is cut off or too long");
    uint64_t value = 0;
    switch (tag & 7) {
      case kVarint:
        if (!reader.Varint(&value, &frame.head)) return Malformed("a number is cut off or too long");
        break;
      case kFixed64:
        if (!SkipInto(reader, 8, &frame.head)) return Malformed("a 64-bit field is cut off");
        break;
      case kFixed32:
        if (!SkipInto(reader, 4, &frame.head)) return Malformed("a 32-bit field is cut off");
        break;
      case kBytes: {
        if (!reader.Varint(&value, &frame.head)) return Malformed("a field's length is cut off or too long");
        if (value > reader.left()) return Malformed("a field is longer than the frame");
        const uint64_t field = tag >> 3;
        if (field != kKeysField && field != kValuesField) {
          SkipInto(reader, value, &frame.head);
          break;
        }
        frame.head.resize(field_start);
        reader.Bytes(value, field == kKeysField ? &frame.keys : &frame.values);
        break;
      }
      default:
        return Malformed("a field has a wire type that Protobuf 3 does not use");
    }
  }
  return frame;
}

absl::Cord JoinFrame(const google::protobuf::MessageLite& head, const absl::Cord& keys,
                     const absl::Cord& values) {
  absl::Cord out(head.SerializeAsString());
  if (!keys.empty()) {
    out.Append(TagAndLength(kKeysField, keys.size()));
    out.Append(keys);
  }
  if (!values.empty()) {
    out.Append(TagAndLength(kValuesField, values.size()));
    out.Append(values);
  }
  return out;
}

// gRPC fills one buffer by several reads, each of which makes a slice: adjacent in memory.
absl::string_view FlatPieces::Next(size_t bytes) {
  if (bytes == 0) return {};
  absl::InlinedVector<absl::string_view, 8> chunks;
  bool follow = true;
  for (size_t seen = 0; seen < bytes; seen += chunks.back().size()) {
    const absl::string_view chunk = absl::Cord::ChunkRemaining(at_).substr(0, bytes - seen);
    follow = follow && (chunks.empty() || chunks.back().data() + chunks.back().size() == chunk.data());
    chunks.push_back(chunk);
    absl::Cord::Advance(&at_, chunk.size());
  }
  if (follow) return {chunks.front().data(), bytes};
  char* const copy = copies_.emplace_back(new char[bytes]).get();
  char* to = copy;
  for (const absl::string_view chunk : chunks) {
    std::memcpy(to, chunk.data(), chunk.size());
    to += chunk.size();
  }
  return {copy, bytes};
}

FlatBytes::FlatBytes(absl::Cord cord) : cord_(std::move(cord)) {
  if (auto flat = cord_.TryFlat(); flat.has_value()) {
    view_ = *flat;
    return;
  }
  // Not a std::string: that would write zeros to all of its memory first.
  copy_.reset(new char[cord_.size()]);
  char* to = copy_.get();
  for (const absl::string_view chunk : cord_.Chunks()) {
    std::memcpy(to, chunk.data(), chunk.size());
    to += chunk.size();
  }
  view_ = absl::string_view(copy_.get(), cord_.size());
  cord_.Clear();
}

}  // namespace paceline::wire
