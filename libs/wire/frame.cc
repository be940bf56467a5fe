#include "libs/wire/frame.h"

#include <cstdint>

namespace paceline::wire {
namespace {

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(
      "frame: " + std::string(what) +
      "; expected the bytes of one Protobuf message of paceline/v1/shard.proto");
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
  for (absl::string_view chunk : bytes.Chunks()) head->append(chunk.data(), chunk.size());
  return true;
}

void AppendTagAndLength(int field, size_t length, absl::Cord& out) {
  char buffer[16];
  size_t n = 0;
  for (uint64_t value : {static_cast<uint64_t>(field) << 3 | kBytes, static_cast<uint64_t>(length)}) {
    while (value >= 0x80) {
      buffer[n++] = static_cast<char>(value | 0x80);
      value >>= 7;
    }
    buffer[n++] = static_cast<char>(value);
  }
  out.Append(absl::string_view(buffer, n));
}

}  // namespace

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
    AppendTagAndLength(kKeysField, keys.size(), out);
    out.Append(keys);
  }
  if (!values.empty()) {
    AppendTagAndLength(kValuesField, values.size(), out);
    out.Append(values);
  }
  return out;
}

FlatBytes::FlatBytes(absl::Cord cord) : cord_(std::move(cord)) {
  if (auto flat = cord_.TryFlat(); flat.has_value()) {
    view_ = *flat;
    return;
  }
  copy_ = std::string(cord_);
  cord_.Clear();
  view_ = copy_;
}

}  // namespace paceline::wire
