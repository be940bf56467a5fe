#include "libs/table/page_arenas.h"

namespace paceline::table {

PageArenas::~PageArenas() {
  for (const auto& [base, arena] : arenas_) source_.GiveBack(reinterpret_cast<std::byte*>(base));
}

std::byte* PageArenas::Allocate(size_t bytes) {
  if (bytes < kBytesMin || bytes > kBytesMax) return nullptr;
  const auto length = static_cast<uint32_t>((bytes + kGrain - 1) / kGrain);
  auto fits = free_.lower_bound(Run(length, 0));
  if (fits == free_.end()) {
    if (!Grow()) return nullptr;
    fits = free_.lower_bound(Run(length, 0));
  }
  const auto [found, address] = *fits;
  free_.erase(fits);
  const uintptr_t base = BaseOf(address);
  Arena& arena = *arenas_.at(base);
  if (arena.used == 0) --empty_;
  const auto first = static_cast<uint32_t>((address - base) / kGrain);
  Mark(arena, first, length, /*taken=*/true);
  if (found > length) AddFree(base, arena, first + length, found - length);
  arena.used += length;
  used_ += length * kGrain;
  return reinterpret_cast<std::byte*>(address);
}

bool PageArenas::Free(std::byte* buffer) {
  const auto address = reinterpret_cast<uintptr_t>(buffer);
  const uintptr_t base = BaseOf(address);
  const auto it = arenas_.find(base);
  if (it == arenas_.end()) return false;
  Arena& arena = *it->second;
  auto first = static_cast<uint32_t>((address - base) / kGrain);
  uint32_t length = arena.length[first];
  arena.used -= length;
  used_ -= length * kGrain;
  const auto join = [&](uint32_t begin) {
    free_.erase(Run(arena.length[begin], base + begin * kGrain));
    length += arena.length[begin];
  };
  if (const uint32_t end = first + length; end < kGrains && !arena.taken[end]) join(end);
  if (first > 0 && !arena.taken[first - 1]) {
    const uint32_t begin = first - arena.length[first - 1];
    join(begin);
    first = begin;
  }
  AddFree(base, arena, first, length);
  if (arena.used == 0) OnEmpty(base);
  return true;
}

bool PageArenas::Grow() {
  if (held() - used_ > used_ / 4 + kArenaBytes) return false;
  std::byte* const memory = source_.Take();
  if (memory == nullptr) return false;
  const auto base = reinterpret_cast<uintptr_t>(memory);
  auto& arena = arenas_[base] = std::make_unique<Arena>();
  ++empty_;
  AddFree(base, *arena, 0, kGrains);
  return true;
}

void PageArenas::Mark(Arena& arena, uint32_t first, uint32_t length, bool taken) {
  for (const uint32_t end : {first, first + length - 1}) {
    arena.length[end] = static_cast<uint16_t>(length);
    arena.taken[end] = taken;
  }
}

void PageArenas::AddFree(uintptr_t base, Arena& arena, uint32_t first, uint32_t length) {
  Mark(arena, first, length, /*taken=*/false);
  free_.emplace(length, base + first * kGrain);
}

// One is kept: the next page that grows would fetch it again.
void PageArenas::OnEmpty(uintptr_t base) {
  if (empty_ == 0) {
    ++empty_;
    return;
  }
  free_.erase(Run(kGrains, base));
  arenas_.erase(base);
  source_.GiveBack(reinterpret_cast<std::byte*>(base));
}

}  // namespace paceline::table
