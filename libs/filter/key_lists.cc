#include "libs/filter/key_lists.h"

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

absl::Status BadList(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("keys: list: ", what));
}

}  // namespace

bool KeyListSender::Begin(absl::string_view keys, std::string& out) {
  uint32_t crc = Crc32c(Std(keys));
  if (Planted(Bug::kListByChecksum)) crc &= 3;
  const auto known = by_crc_.find(crc);
  if (known != by_crc_.end() && (known->second->keys == keys || Planted(Bug::kListByChecksum))) {
    AppendVarint(kNamed, out);
    AppendVarint(known->second->index, out);
    out.resize(out.size() + sizeof(uint32_t));
    StoreU32(crc, out.data() + out.size() - sizeof(uint32_t));
    return true;
  }
  const uint64_t cost = ListCost(keys.size());
  // One list shall not drive out most of the others.
  const bool wanted = known == by_crc_.end() && cost <= bytes_max_ / 4;
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
  bytes_ += cost;
  return false;
}

uint64_t KeyListSender::DropOne() {
  std::unique_ptr<List>& place = lists_[Mixed(dropped_++) % lists_.size()];
  const std::unique_ptr<List> list = std::move(place);
  place = std::move(lists_.back());
  lists_.pop_back();
  by_crc_.erase(list->crc);
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
    return Begun{.named = list->second.keys};
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
  lists_.emplace(index, List{.keys = std::move(keys), .crc = crc});
  return absl::OkStatus();
}

}  // namespace paceline::filter
