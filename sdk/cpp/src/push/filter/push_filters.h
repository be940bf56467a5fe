#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "libs/filter/residuals.h"
#include "sdk/cpp/src/push/batch.h"
#include "sdk/cpp/src/session/context.h"

namespace paceline::sdk {

// What of a client's pushes is sent now, and what is held back (paceline/push_filter.h): before a part has
// its number. Used only inside the gate.
class PushFilters {
 public:
  explicit PushFilters(Context& context) : context_(context) {}

  // What of the batch is sent now, as the table's filter says; without a filter the batch itself. Its values
  // are then what is due to the rows. May have no pieces: all is held back.
  std::shared_ptr<const Batch> Take(const std::shared_ptr<const TableInfo>& table,
                                    std::shared_ptr<const Batch> batch);

  // Everything that is held back, as it is, to be sent at once; nothing is after that.
  struct HeldBack {
    std::shared_ptr<const TableInfo> table;
    std::shared_ptr<const Batch> batch;
  };
  std::vector<HeldBack> TakeAll();

  bool holds() const { return held_rows() > 0; }
  uint64_t held_rows() const;
  uint64_t held_bytes() const;
  // Loses what is held back: the client has ended.
  void Fail() { tables_.clear(); }

  // For those who check what is sent: called with each batch that leaves a filter, before it has its numbers.
  std::function<void(const TableInfo& table, const Batch& batch)> on_sent;

 private:
  struct Held {
    std::shared_ptr<const TableInfo> table;
    filter::Residuals rows;
  };
  struct Due;

  Held& Of(const std::shared_ptr<const TableInfo>& table);
  // Which rows are sent, whole or rounded.
  std::vector<bool> Choose(const PushFilter& filter, const Due& due);
  // Rounds the row, and holds back the rest; without room for that the row stays as it is. False: it is
  // rounded to nothing, and all of it is held back.
  bool Round(filter::Residuals& held, const PushFilter& filter, uint64_t key, std::span<float> row);
  void CountSent(const TableInfo& table, const Batch& batch);
  std::shared_ptr<const Batch> Group(const TableInfo& table, const std::vector<uint64_t>& keys,
                                     const std::vector<float>& values) const;

  Context& context_;
  std::map<TableId, Held> tables_;
  // Of the row that is being rounded.
  std::vector<float> rounded_;
  std::vector<float> rest_;
};

}  // namespace paceline::sdk
