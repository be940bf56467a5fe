#include "sdk/cpp/src/push/listed_keys.h"

#include <utility>

#include "paceline/key_list.h"

namespace paceline {
namespace sdk {
namespace {

bool GroupAlike(const Routes& a, const Routes& b) {
  return &a == &b || (a.segments == b.segments && a.piece_bytes == b.piece_bytes);
}

}  // namespace

std::shared_ptr<const Batch> ListedKeys::Grouped(const std::shared_ptr<const Routes>& routes) const {
  const std::lock_guard lock(mutex_);
  if (grouped_ == nullptr || !GroupAlike(*routes_, *routes)) {
    grouped_ = GroupListed(*routes, placement_, dim_, keys_);
  }
  routes_ = routes;
  return grouped_;
}

}  // namespace sdk

KeyList::KeyList(std::shared_ptr<const sdk::ListedKeys> keys, OfTable) : keys_(std::move(keys)) {}

size_t KeyList::size() const {
  return keys_ == nullptr ? 0 : keys_->keys().size();
}

}  // namespace paceline
