#include "libs/filter/key_lists.h"

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/crc32c.h"
#include "libs/base/little_endian.h"
#include "libs/base/planted.h"
#include "libs/base/status.h"
#include "libs/base/varint.h"

namespace paceline::filter {
namespace {

enum Form : uint64_t { kPlain = 0, kKept = 1, kNamed = 2 };

// So many lists go at most for one that comes: what is before the keys of a frame stays short.
constexpr size_t kDropsMax = 64;

std::string_view Std(absl::string_view bytes) {
  return {bytes.data(), bytes.size()};
}

// A number that looks random (SplitMix64), the same on every machine.
uint64_t Mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

bool LiesWithin(absl::string_view bytes, absl::string_view within) {
  const std::less_equal<const char*> before;
  return !within.empty() && before(within.data(), bytes.data()) &&
         before(bytes.data() + bytes.size(), within.data() + within.size());
}

absl::Status BadList(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("keys: list: ", what));
}

}  // namespace

const KeyListSender::List* KeyListSender::FindByPlace(absl::string_view keys,
                                                      const LastingMemory& lasting) const {
  const auto known = by_place_.find(keys.data());
  if (known == by_place_.end()) return nullptr;
  const List& list = *known->second;
  const bool same_memory = !list.owner.owner_before(lasting.owner) && !lasting.owner.owner_before(list.owner);
  return same_memory && list.keys.size() == keys.size() ? &list : nullptr;
}

void KeyListSender::KnowPlace(List& list, absl::string_view keys, const LastingMemory& lasting) {
  ForgetPlace(list);
  list.place = keys.data();
  list.owner = lasting.owner;
  by_place_.insert_or_assign(list.place, &list);
}

void KeyListSender::ForgetPlace(const List& list) {
  const auto known = by_place_.find(list.place);
  if (known != by_place_.end() && known->second == &list) by_place_.erase(known);
}

bool KeyListSender::Begin(absl::string_view keys, std::string& out, const LastingMemory& lasting) {
  const auto name = [&out](const List& list) {
    AppendVarint(kNamed, out);
    AppendVarint(list.index, out);
    out.resize(out.size() + sizeof(uint32_t));
    StoreU32(list.crc, out.data() + out.size() - sizeof(uint32_t));
    return true;
  };
  const bool lasts = LiesWithin(keys, lasting.bytes);
  if (const List* known = lasts ? FindByPlace(keys, lasting) : nullptr; known != nullptr) {
    ++found_by_place_;
    return name(*known);
  }
  uint32_t crc = Crc32c(Std(keys));
  if (Planted(Bug::kListByChecksum)) crc &= 3;
  const auto alike = by_crc_.find(crc);
  if (alike != by_crc_.end() && (alike->second->keys == keys || Planted(Bug::kListByChecksum))) {
    if (lasts) KnowPlace(*alike->second, keys, lasting);
    return name(*alike->second);
  }
  const uint64_t cost = ListCost(keys.size());
  // One list shall not drive out most of the others.
  const bool wanted = alike == by_crc_.end() && cost <= bytes_max_ / 4;
  std::vector<uint64_t> drops;
  while (wanted && bytes_ + cost > bytes_max_ && drops.size() < kDropsMax) drops.push_back(DropOne());
  const bool kept = wanted && bytes_ + cost <= bytes_max_;
  AppendVarint(kept ? kKept : kPlain, out);
  AppendVarint(drops.size(), out);
  for (const uint64_t index : drops) AppendVarint(index, out);
  if (!kept) return false;
  AppendVarint(made_, out);
  lists_.push_back(std::make_unique<List>(
      List{.index = made_++, .crc = crc, .keys = std::string(keys.data(), keys.size())}));
  by_crc_.emplace(crc, lists_.back().get());
  if (lasts) KnowPlace(*lists_.back(), keys, lasting);
  bytes_ += cost;
  return false;
}

uint64_t KeyListSender::DropOne() {
  std::unique_ptr<List>& place = lists_[Mixed(dropped_++) % lists_.size()];
  const std::unique_ptr<List> list = std::move(place);
  place = std::move(lists_.back());
  lists_.pop_back();
  by_crc_.erase(list->crc);
  ForgetPlace(*list);
  bytes_ -= ListCost(list->keys.size());
  return list->index;
}

absl::StatusOr<KeyListReceiver::Begun> KeyListReceiver::Begin(std::string_view& in) {
  ABSL_ASSIGN_OR_RETURN(const uint64_t form, TakeVarint(in));
  if (form == kNamed) {
    ABSL_ASSIGN_OR_RETURN(const uint64_t index, TakeVarint(in));
    if (in.size() != sizeof(uint32_t))
      return BadList("a name has an index and a checksum, and nothing follows");
    const auto list = lists_.find(index);
    if (list == lists_.end()) {
      return BadList(absl::StrCat("index ", index, " is not kept on this stream; send its keys"));
    }
    if (LoadU32(in.data()) != list->second.crc && !Planted(Bug::kListByChecksum)) {
      return BadList(absl::StrCat("index ", index, " has other keys here: the checksum differs"));
    }
    in = {};
    return Begun{.named = list->second.keys, .notes = list->second.notes};
  }
  if (form != kPlain && form != kKept) return BadList(absl::StrCat("form ", form, "; expected 0, 1 or 2"));
  ABSL_ASSIGN_OR_RETURN(const uint64_t drops, TakeVarint(in));
  if (drops > kDropsMax)
    return BadList(absl::StrCat(drops, " are dropped at once; at most ", kDropsMax, " may be"));
  for (uint64_t i = 0; i < drops; ++i) {
    ABSL_ASSIGN_OR_RETURN(const uint64_t index, TakeVarint(in));
    ABSL_RETURN_IF_ERROR(Drop(index));
  }
  if (form == kPlain) return Begun{.named = nullptr};
  ABSL_ASSIGN_OR_RETURN(const uint64_t index, TakeVarint(in));
  return Begun{.named = nullptr, .index = index};
}

absl::Status KeyListReceiver::Drop(uint64_t index) {
  const auto list = lists_.find(index);
  if (list == lists_.end())
    return BadList(absl::StrCat("index ", index, " is dropped, but is not kept here"));
  bytes_ -= ListCost(list->second.keys->size());
  lists_.erase(list);
  return absl::OkStatus();
}

absl::Status KeyListReceiver::Keep(uint64_t index, std::shared_ptr<const std::string> keys) {
  if (newest_.has_value() && index <= *newest_) {
    return BadList(absl::StrCat("index ", index, " after ", *newest_, "; each new list has a larger one"));
  }
  const uint64_t cost = ListCost(keys->size());
  if (cost > bytes_max_ || bytes_ > bytes_max_ - cost) {
    return BadList(absl::StrCat(cost, " bytes more than the ", bytes_, " kept; the stream may keep ",
                                bytes_max_, ": drop others"));
  }
  newest_ = index;
  bytes_ += cost;
  const uint32_t crc = Crc32c(*keys);
  lists_.emplace(index, List{.keys = std::move(keys), .crc = crc, .notes = std::make_shared<ListNotes>()});
  return absl::OkStatus();
}

}  // namespace paceline::filter
