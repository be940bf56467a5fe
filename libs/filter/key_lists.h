#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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

// Memory that does not change for as long as it is there. A list that lies in it is found again by its
// address and owner, without a look at its keys.
struct LastingMemory {
  absl::string_view bytes;
  std::shared_ptr<const void> owner;
};

// The side that names lists. Keeps a copy of each.
class KeyListSender {
 public:
  // `bytes_max`: of all lists. 0: none is kept.
  explicit KeyListSender(uint64_t bytes_max = 0) : bytes_max_(bytes_max) {}

  // Writes what goes before the keys. True: the list is named, and the keys are left out. `keys` may lie in
  // `lasting`, or not.
  bool Begin(absl::string_view keys, std::string& out, const LastingMemory& lasting = {});

  uint64_t bytes() const { return bytes_; }
  size_t lists() const { return lists_.size(); }
  // How often a list was named without a look at its keys.
  uint64_t found_by_place() const { return found_by_place_; }

 private:
  struct List {
    uint64_t index = 0;
    uint32_t crc = 0;
    std::string keys;
    // The lasting memory that the list came from last. While its owner is there nothing else lies there.
    const char* place = nullptr;
    std::weak_ptr<const void> owner = {};
  };

  // Null: it is not known.
  const List* FindByPlace(absl::string_view keys, const LastingMemory& lasting) const;
  // The list is known by this place from now on.
  void KnowPlace(List& list, absl::string_view keys, const LastingMemory& lasting);
  void ForgetPlace(const List& list);
  // A list that goes. Any of them: keys that come round in a circle longer than the room would find none of
  // the oldest ones ever.
  uint64_t DropOne();

  uint64_t bytes_max_;
  uint64_t bytes_ = 0;
  uint64_t made_ = 0;
  uint64_t dropped_ = 0;
  std::vector<std::unique_ptr<List>> lists_;
  absl::flat_hash_map<uint32_t, List*> by_crc_;  // of two lists with one checksum only the first is kept
  absl::flat_hash_map<const char*, List*> by_place_;
  uint64_t found_by_place_ = 0;
};

// Whether a list's keys are good for the first use that was made of them, so that their receiver need not
// look at them again when they are named for the same. What a use is, is the receiver's business: some bytes.
class ListNotes {
 public:
  bool has_use() const { return use_.has_value(); }
  bool GoodFor(absl::string_view use) const { return good_ && use_ == use; }
  // REQUIRES: !has_use(). So a peer that changes the use again and again gains nothing.
  void Note(std::string use, bool good) {
    use_ = std::move(use);
    good_ = good;
  }

 private:
  std::optional<std::string> use_;
  bool good_ = false;
};

// The other side. Safe for hostile bytes: keeps no more than the bound.
class KeyListReceiver {
 public:
  explicit KeyListReceiver(uint64_t bytes_max = 0) : bytes_max_(bytes_max) {}

  struct Begun {
    std::shared_ptr<const std::string> named;  // the keys; null: they follow …
    std::optional<uint64_t> index = {};        // … and are this list: Keep them
    std::shared_ptr<ListNotes> notes = {};     // of the list that is named; null: they follow
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
    std::shared_ptr<ListNotes> notes;
  };

  absl::Status Drop(uint64_t index);

  uint64_t bytes_max_;
  uint64_t bytes_ = 0;
  std::optional<uint64_t> newest_;
  absl::flat_hash_map<uint64_t, List> lists_;
};

}  // namespace paceline::filter
