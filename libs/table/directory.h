#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "libs/table/sparse_page.h"

namespace paceline::table {

// From places to pages: the directory of extendible hashing (Fagin et al., ACM TODS 4, 1979) over the leading
// bits of a place, one slot for each of their values. What it costs must not depend on how well keys are
// spread, for anybody can choose keys whose places share fifty leading bits. So the slots are at most about
// eight times as many as the pages; where pages lie deeper than that, a slot leads to a binary trie.
//
// The pages are a partition of all places. The directory borrows them.
class Directory {
 public:
  // `root` covers everything.
  explicit Directory(SparsePage* root) : slots_{Slot(root)} {}

  // The page that covers `place`. One memory access for well-spread keys.
  SparsePage* Find(uint64_t place) const {
    Slot slot = slots_[IndexOf(place)];
    for (int bit = bits_; slot.is_node(); ++bit) slot = nodes_[slot.node()].child[BitOf(place, bit)];
    return slot.page();
  }

  // Puts the two halves of a page that was split, whose ranges are those after the split, in its place.
  // `pages` is the number of pages that have rows.
  void Replace(SparsePage* lower, SparsePage* upper, size_t pages);

  // All pages, each once, by ascending start.
  void ForEach(absl::FunctionRef<void(SparsePage&)> visit) const;

  // Memory held.
  size_t bytes() const { return slots_.size() * sizeof(Slot) + nodes_.size() * sizeof(Node); }
  // The most that a directory grows to from here by `splits` splits that leave `pages` pages with rows.
  size_t BytesBound(size_t pages, size_t splits) const;

 private:
  // A page, or the number of a node; told apart by the lowest bit.
  class Slot {
   public:
    Slot() = default;
    explicit Slot(SparsePage* page) : bits_(reinterpret_cast<uintptr_t>(page)) {}
    static Slot Node(size_t node) { return Slot(node * 2 + 1); }
    bool is_node() const { return (bits_ & 1) != 0; }
    size_t node() const { return bits_ / 2; }
    SparsePage* page() const { return reinterpret_cast<SparsePage*>(bits_); }

   private:
    explicit Slot(uintptr_t bits) : bits_(bits) {}
    uintptr_t bits_ = 0;
  };
  struct Node {
    Slot child[2];
  };

  static size_t BitOf(uint64_t place, int bit) { return (place >> (63 - bit)) & 1; }
  size_t IndexOf(uint64_t place) const { return (place >> 1) >> (63 - bits_); }
  // As many bits as a directory of so many pages may resolve by slots.
  static int MaxBits(size_t pages);
  // Resolves one more bit by slots.
  void Double();
  size_t NewNode(Node node);
  void ForEach(Slot slot, absl::FunctionRef<void(SparsePage&)> visit) const;

  int bits_ = 0;             // resolved by slots_
  std::vector<Slot> slots_;  // 2^bits_
  std::vector<Node> nodes_;
  std::vector<size_t> free_nodes_;
};

}  // namespace paceline::table
