#pragma once

#include <cstddef>
#include <memory>

namespace paceline {

class Table;

namespace sdk {
class ListedKeys;
}

// Keys of one table that come again: a batch of a data set that is gone through once an epoch. MakeKeyList of
// Table checks them; the first call that names the list groups them, and so does the first after segments
// have moved. Pulls and pushes name the list instead of the keys. With a link filter of key lists (filters.h)
// a stream that knows the list names it without a look at its keys, and the shard does not check them again.
//
// A small handle to keys that never change: copy it freely and use it from any number of threads. Takes 20
// bytes a key for as long as a handle, or an operation under way, needs it; a stream that knows it keeps a
// copy of its own (filters.h). It goes with every handle of its table.
class KeyList {
 public:
  // Keys in the list: rows of a pull or push that names it.
  size_t size() const;
  bool empty() const { return size() == 0; }
  // For the SDK itself. Null: the handle was moved from.
  const std::shared_ptr<const sdk::ListedKeys>& listed() const { return keys_; }

 private:
  friend class Table;
  // Nothing converts to it: `{}`, `{0}` and `{0, 1}` are keys where a list could be meant, too.
  struct OfTable {
    explicit OfTable() = default;
  };
  KeyList(std::shared_ptr<const sdk::ListedKeys> keys, OfTable);

  std::shared_ptr<const sdk::ListedKeys> keys_;
};

}  // namespace paceline
