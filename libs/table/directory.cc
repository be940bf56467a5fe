#include "libs/table/directory.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace paceline::table {
namespace {

constexpr size_t kSlotsPerPage = 8;
constexpr size_t kPagesMin = 8;  // a directory of fewer pages may have as many slots as one of these

}  // namespace

int Directory::MaxBits(size_t pages) {
  return std::bit_width(kSlotsPerPage * std::max(pages, kPagesMin)) - 1;
}

size_t Directory::BytesBound(size_t pages, size_t splits) const {
  const size_t slots = std::max(slots_.size(), size_t{1} << MaxBits(pages));
  return slots * sizeof(Slot) + (nodes_.size() + splits) * sizeof(Node);
}

void Directory::Replace(SparsePage* lower, SparsePage* upper, size_t pages) {
  const int depth = lower->range().depth;
  while (depth > bits_ && bits_ < MaxBits(pages)) Double();
  const size_t index = IndexOf(upper->range().start);
  if (depth <= bits_) {
    // The page's slots are contiguous; the second half of them goes to `upper`.
    std::fill_n(slots_.begin() + index, size_t{1} << (bits_ - depth), Slot(upper));
    return;
  }
  const size_t added = NewNode({{Slot(lower), Slot(upper)}});
  Slot* slot = &slots_[index];
  for (int bit = bits_; slot->is_node(); ++bit) {
    slot = &nodes_[slot->node()].child[BitOf(upper->range().start, bit)];
  }
  *slot = Slot::Node(added);
}

void Directory::Double() {
  std::vector<Slot> doubled;
  doubled.reserve(slots_.size() * 2);
  for (const Slot slot : slots_) {
    if (slot.is_node()) {
      doubled.insert(doubled.end(), std::begin(nodes_[slot.node()].child),
                     std::end(nodes_[slot.node()].child));
      free_nodes_.push_back(slot.node());
    } else {
      doubled.insert(doubled.end(), 2, slot);
    }
  }
  slots_ = std::move(doubled);
  ++bits_;
}

size_t Directory::NewNode(Node node) {
  if (free_nodes_.empty()) {
    nodes_.push_back(node);
    return nodes_.size() - 1;
  }
  const size_t reused = free_nodes_.back();
  free_nodes_.pop_back();
  nodes_[reused] = node;
  return reused;
}

void Directory::ForEach(absl::FunctionRef<void(SparsePage&)> visit) const {
  for (size_t i = 0; i < slots_.size();) {
    ForEach(slots_[i], visit);
    // A page above the slots has several of them, contiguous.
    const bool run = !slots_[i].is_node() && slots_[i].page()->range().depth < bits_;
    i += run ? size_t{1} << (bits_ - slots_[i].page()->range().depth) : 1;
  }
}

void Directory::ForEach(Slot slot, absl::FunctionRef<void(SparsePage&)> visit) const {
  if (!slot.is_node()) return visit(*slot.page());
  for (const Slot child : nodes_[slot.node()].child) ForEach(child, visit);
}

}  // namespace paceline::table
