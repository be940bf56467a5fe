#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "libs/history/event.h"

// A history file: eight bytes of magic, then blocks, each with its length, its checksum, its number and some
// events. A block counts whole or not at all, so a file that a kill tore can be read up to that point.
namespace paceline::history {

inline constexpr std::string_view kMagic = "PACEREC\x01";
inline constexpr size_t kBlockHeadBytes = 8;               // length, CRC-32C of what follows
inline constexpr size_t kBlockBytesMax = size_t{1} << 24;  // of a block's number and events

// Appends a block. `number` counts the file's blocks from 1. REQUIRES: events.size() is well below
// kBlockBytesMax.
void AppendBlock(uint64_t number, std::string_view events, std::string& out);

// The events of a file, in order.
class Reader {
 public:
  // `bytes`: the whole file; must outlive the reader.
  explicit Reader(std::string_view bytes);

  struct Item {
    uint64_t offset = 0;  // in the file
    Event event;
  };
  // nullopt: there are no more, and end() says why.
  std::optional<Item> Next();

  enum class Ending {
    kClean,   // with the event End
    kEarly,   // after a whole block, without End: the process was killed
    kTorn,    // within a block: the process was killed while it wrote
    kBroken,  // bytes before the end are damaged; `why` says where
  };
  struct Ended {
    Ending ending = Ending::kEarly;
    uint64_t offset = 0;  // the file was read up to here
    std::string why;
  };
  // REQUIRES: Next() has returned nullopt.
  const Ended& end() const { return end_; }

 private:
  bool NextBlock();
  bool Stop(Ending ending, std::string why);
  uint64_t OffsetOf(std::string_view rest) const {
    return static_cast<uint64_t>(rest.data() - bytes_.data());
  }

  const std::string_view bytes_;
  std::string_view rest_;    // after the block at hand
  std::string_view events_;  // left of the block at hand
  uint64_t blocks_ = 0;
  bool stopped_ = false;
  bool clean_ = false;
  Ended end_;
};

}  // namespace paceline::history
