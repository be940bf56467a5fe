#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"
#include "libs/log/keys.h"
#include "libs/table/look_ahead.h"
#include "services/shard/context.h"

namespace paceline::shard {

// Has the pages of a frame's parts fetched into the caches while parts before them are still taken or read,
// one segment after the other. Lives on the executor of its segments, for one frame's parts.
class FetchAhead {
 public:
  FetchAhead(Context& context, TableId table, log::KeyForm form)
      : context_(context), table_(table), keys_(form == log::KeyForm::kKeys) {}

  // Call before part `i` of `count` is taken or read. `segment_of(i)` and `bytes_of(i)` are the segment of a
  // part and its keys.
  template <class SegmentOf, class BytesOf>
  void Before(size_t i, size_t count, const SegmentOf& segment_of, const BytesOf& bytes_of) {
    if (!keys_ || i < next_) return;
    for (; next_ < count; ++next_) {
      const table::KeyView keys = log::Keys(bytes_of(next_));
      if (keys.size() <= kFewKeys && keys.size() > ahead_.room()) break;
      // A part of many keys fetches them side by side by itself.
      if (keys.size() <= kFewKeys) context_.host(segment_of(next_)).Foresee(table_, keys, ahead_);
    }
    ahead_.Restart();
  }

 private:
  static constexpr size_t kFewKeys = 64;

  Context& context_;
  const TableId table_;
  const bool keys_;
  table::LookAhead ahead_;
  size_t next_ = 0;
};

}  // namespace paceline::shard
