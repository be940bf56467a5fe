#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "libs/base/ids.h"
#include "sdk/cpp/src/push/batch.h"
#include "sdk/cpp/src/session/table_info.h"

namespace paceline::sdk {

// A push as a value bound counts it: for each row the largest absolute value that is pushed to it (its max
// norm); for a row that the push names more than once, their sum. Rows to which only zeros are pushed are
// left out. What is not finite counts as the largest f32.
struct WeighedPush {
  struct Row {
    uint64_t key = 0;
    double norm = 0;
  };
  TableId table;
  std::map<SegmentId, std::vector<Row>> segments;  // by key, each once
  size_t rows = 0;
};
WeighedPush Weigh(const TableInfo& table, const Batch& batch);

// The client's own updates, of tables under a value bound, that not all readers have seen yet: their sum by
// row. A sum of norms is at least the norm of the sum, of these updates and of any part of them.
//
// Size: some 40 bytes for each row of each push; at most kRowsMax of these, or those of a single push.
class UnseenUpdates {
 public:
  static constexpr size_t kRowsMax = size_t{1} << 20;

  explicit UnseenUpdates(size_t rows_max = kRowsMax) : rows_max_(rows_max) {}

  // True: with this push the sum of every row is at most `bound`, or it is the row's only update; and there
  // is room.
  bool Fits(const WeighedPush& push, double bound) const;
  // The segments that must have seen more before it fits. Empty if it fits.
  std::vector<SegmentId> InItsWay(const WeighedPush& push, double bound) const;
  // True: this one must.
  bool IsInItsWay(SegmentId segment, const WeighedPush& push, double bound) const;

  // It was made, up to part `number(segment)` of each segment. Returns the segments in which a row has more
  // than half of the bound by now, or all of them if little room is left: worth asking what was seen.
  std::vector<SegmentId> Add(const WeighedPush& push, double bound,
                             absl::FunctionRef<PartNumber(SegmentId)> number);
  // All readers have seen the parts up to `upto`. True: that was news.
  bool Seen(SegmentId segment, PartNumber upto);

  // The last part of the segment that not all have seen; 0: none.
  PartNumber Last(SegmentId segment) const;
  size_t rows() const { return rows_; }
  // How often something was seen: as long as it stays, a push that did not fit does not fit, as bounds do not
  // grow.
  uint64_t news() const { return news_; }

 private:
  struct Part {
    PartNumber number = 0;
    TableId table;
    std::vector<WeighedPush::Row> rows;
  };
  struct Sum {
    double norm = 0;
    uint32_t updates = 0;
  };
  using RowName = std::pair<TableId, uint64_t>;

  bool HasRoom(const WeighedPush& push) const { return rows_ == 0 || rows_ + push.rows <= rows_max_; }
  bool Fits(TableId table, const WeighedPush::Row& row, double bound) const;

  const size_t rows_max_;
  std::map<SegmentId, std::deque<Part>> parts_;  // oldest first
  absl::flat_hash_map<RowName, Sum> sums_;
  size_t rows_ = 0;  // of all parts
  uint64_t news_ = 0;
};

}  // namespace paceline::sdk
