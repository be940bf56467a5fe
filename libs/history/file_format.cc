#include "libs/history/file_format.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/crc32c.h"
#include "libs/base/little_endian.h"
#include "libs/base/varint.h"
#include "libs/history/codec.h"

namespace paceline::history {

void AppendBlock(uint64_t number, std::string_view events, std::string& out) {
  const size_t head = out.size();
  out.resize(head + kBlockHeadBytes);
  AppendVarint(number, out);
  out += events;
  const std::string_view body = std::string_view(out).substr(head + kBlockHeadBytes);
  const uint32_t crc = Crc32c(body);
  const auto length = static_cast<uint32_t>(body.size());
  StoreU32(length, out.data() + head);
  StoreU32(crc, out.data() + head + 4);
}

Reader::Reader(std::string_view bytes) : bytes_(bytes), rest_(bytes) {
  if (rest_.substr(0, kMagic.size()) == kMagic) {
    rest_.remove_prefix(kMagic.size());
  } else if (kMagic.substr(0, rest_.size()) == rest_) {
    Stop(Ending::kTorn, "it ends within its first 8 bytes");
  } else {
    Stop(Ending::kBroken, "this is no history file of format 1");
  }
}

bool Reader::Stop(Ending ending, std::string why) {
  stopped_ = true;
  end_ = {.ending = ending, .offset = OffsetOf(rest_), .why = std::move(why)};
  return false;
}

// An incomplete block at the end of the file was torn; a block before it whose checksum does not match is
// broken.
bool Reader::NextBlock() {
  if (rest_.empty()) {
    return clean_ ? Stop(Ending::kClean, "") : Stop(Ending::kEarly, "it ends without saying so");
  }
  if (rest_.size() < kBlockHeadBytes) return Stop(Ending::kTorn, "it ends within the head of a block");
  const uint32_t length = LoadU32(rest_.data());
  const uint32_t crc = LoadU32(rest_.data() + 4);
  if (length == 0 || length > kBlockBytesMax) {
    return Stop(Ending::kBroken, absl::StrCat("a block of ", length, " bytes"));
  }
  if (length > rest_.size() - kBlockHeadBytes) return Stop(Ending::kTorn, "it ends within a block");
  std::string_view body = rest_.substr(kBlockHeadBytes, length);
  const bool last = rest_.size() == kBlockHeadBytes + length;
  if (Crc32c(body) != crc) {
    return Stop(last ? Ending::kTorn : Ending::kBroken, "a block does not fit its checksum");
  }
  const absl::StatusOr<uint64_t> number = TakeVarint(body);
  if (!number.ok() || *number != blocks_ + 1) {
    return Stop(Ending::kBroken,
                absl::StrCat("block ", number.ok() ? absl::StrCat(*number) : "without number",
                             " follows block ", blocks_));
  }
  ++blocks_;
  events_ = body;
  rest_.remove_prefix(kBlockHeadBytes + length);
  return true;
}

std::optional<Reader::Item> Reader::Next() {
  while (!stopped_) {
    if (events_.empty() && !NextBlock()) break;
    if (events_.empty()) continue;
    Item item{.offset = OffsetOf(events_), .event = {}};
    absl::StatusOr<std::optional<Event>> event = TakeEvent(events_);
    if (!event.ok()) {
      Stop(Ending::kBroken, std::string(event.status().message()));
      end_.offset = item.offset;
      break;
    }
    if (!event->has_value()) continue;
    item.event = **std::move(event);
    clean_ = std::holds_alternative<End>(item.event);
    return item;
  }
  return std::nullopt;
}

}  // namespace paceline::history
