#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// Key caching: a list of keys that one stream has carried before is named instead of sent again (Li et al.,
// OSDI 2014, §3.4). The sender gives each list an index, which it never uses again, and says which lists go
// when room is needed; the receiver does as it is told, within a bound that both know. A name has the list's
// CRC-32C with it, which the receiver compares. The sender compares the keys themselves, so that two lists of
// one checksum are never taken for each other. Each stream begins without lists.
//
// In front of a frame's keys (numbers are varints):
//   0, n, n indices           these lists are dropped; keys follow
//   1, n, n indices, index    …; keys follow, and are the list `index` from now on
//   2, index, u32 CRC-32C     the keys are that list; nothing follows
namespace paceline::filter {

// What a list counts for, in the bound of both sides.
inline constexpr uint64_t kListOverhead = 64;
constexpr uint64_t ListCost(size_t bytes) {
  return bytes + kListOverhead;
}

// The side that names lists. Keeps a copy of each.
class KeyListSender {
 public:
  // `bytes_max`: of all lists. 0: none is kept.
  explicit KeyListSender(uint64_t bytes_max = 0) : bytes_max_(bytes_max) {}

  // Writes what goes before the keys. True: the list is named, and the keys are left out.
  bool Begin(absl::string_view keys, std::string& out);

  uint64_t bytes() const { return bytes_; }
  size_t lists() const { return lists_.size(); }

 private:
  struct List {
    uint64_t index = 0;
    uint32_t crc = 0;
    std::string keys;
  };

  // A list that goes. Any of them: keys that come round in a circle longer than the room would find none of
  // the oldest ones ever.
  uint64_t DropOne();

  uint64_t bytes_max_;
  uint64_t bytes_ = 0;
  uint64_t made_ = 0;
  uint64_t dropped_ = 0;
  std::vector<std::unique_ptr<List>> lists_;
  absl::flat_hash_map<uint32_t, const List*>
      by_crc_;  // of two lists with one checksum only the first is kept
};

// The other side. Safe for hostile bytes: keeps no more than the bound.
class KeyListReceiver {
 public:
  explicit KeyListReceiver(uint64_t bytes_max = 0) : bytes_max_(bytes_max) {}

  struct Begun {
    std::shared_ptr<const std::string> named;  // the keys; null: they follow …
    std::optional<uint64_t> index = {};        // … and are this list: Keep them
  };
  // Takes what goes before the keys off `in`. INVALID_ARGUMENT: it is malformed, or names a list that is not
  // here or is another one. The stream cannot go on then.
  absl::StatusOr<Begun> Begin(std::string_view& in);
  // INVALID_ARGUMENT: the index was used before, or there is no room.
  absl::Status Keep(uint64_t index, std::shared_ptr<const std::string> keys);

  uint64_t bytes() const { return bytes_; }
  size_t lists() const { return lists_.size(); }

 private:
  struct List {
    std::shared_ptr<const std::string> keys;
    uint32_t crc = 0;
  };

  absl::Status Drop(uint64_t index);

  uint64_t bytes_max_;
  uint64_t bytes_ = 0;
  std::optional<uint64_t> newest_;
  absl::flat_hash_map<uint64_t, List> lists_;
};

}  // namespace paceline::filter
