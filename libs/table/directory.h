#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "libs/table/sparse_page.h"

namespace paceline::table {

// Maps places to pages: the directory of extendible hashing (Fagin et al., ACM TODS 4, 1979) over the leading
// bits of a place, with one slot for each value of these bits. Its cost must not depend on how well keys are
// spread, since anybody can choose keys whose places share fifty leading bits. So there are at most about
// eight slots per page; where pages lie deeper than the slots resolve, a slot leads to a binary trie.
//
// The pages are a partition of all places. The directory borrows them.
class Directory {
 public:
  // `root` covers all places.
  explicit Directory(SparsePage* root) : slots_{Slot(root)} {}

  // The page that covers `place`. One memory access for well-spread keys.
  SparsePage* Find(uint64_t place) const {
    Slot slot = slots_[IndexOf(place)];
    for (int bit = bits_; slot.is_node(); ++bit) slot = nodes_[slot.node()].child[BitOf(place, bit)];
    return slot.page();
  }

  // Replaces a page that was split by its two halves, whose ranges are those after the split. `pages` is the
  // number of pages that have rows.
  void Replace(SparsePage* lower, SparsePage* upper, size_t pages);

  // All pages, each once, by ascending start.
  void ForEach(absl::FunctionRef<void(SparsePage&)> visit) const;

  // Bytes of memory held.
  size_t bytes() const { return slots_.size() * sizeof(Slot) + nodes_.size() * sizeof(Node); }
  // The largest size in bytes that `splits` more splits, which leave `pages` pages with rows, can lead to.
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
  // The most bits that a directory of so many pages may resolve by slots.
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
