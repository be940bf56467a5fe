// Invariants of aggregated tables: a fold is made of the parts of its clock, in their order.
#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/ring/placement.h"
#include "tests/sim/invariants.h"

namespace paceline::sim {
namespace {

std::string Whose(SegmentId segment, SessionId session) {
  return absl::StrCat("segment ", segment.v, ", session ", session.v, ": ");
}

}  // namespace

// A fold holds the parts of its clock that were not logged before, each with its content, and nothing else;
// added up by rank, session and number, in f32.
void Invariants::Folded(SegmentLedger& ledger, SegmentId segment, const log::Fold& fold) {
  std::vector<std::tuple<uint32_t, SessionId, PartNumber>> order;
  for (const auto& [id, number] : fold.numbers) order.emplace_back(ledger.sessions[id].rank, id, number);
  std::ranges::sort(order);
  std::map<TableId, TableRows> expected;
  for (const auto& [rank, id, number] : order) {
    Fenced(ledger, segment, id, "Fold");
    const TrueSession* session = truth_.Find(id);
    const SegmentAndLine where{segment.v, Line::kAggregated};
    const PartNumber applied = ledger.Applied(id, Line::kAggregated);
    if (session == nullptr || number <= applied || number > session->Last(where)) {
      verdict_.Violated("Once", absl::StrCat(Whose(segment, id), "clock ", fold.clock,
                                             " is folded with parts up to ", number, " after ", applied));
      continue;
    }
    for (PartNumber n = applied + 1; n <= number; ++n) {
      const TruePart& part = session->parts.at(where)[n - 1];
      if (!part.valid) continue;
      if (part.clock != fold.clock) {
        verdict_.Violated("Once", absl::StrCat(Whose(segment, id), "part ", n, " of clock ", part.clock,
                                               " is folded with clock ", fold.clock));
      }
      AddTo(expected[part.table], part, DimOf(part.table), /*assign=*/false);
    }
  }
  DivideMeans(ledger, fold, expected);
  std::map<TableId, TableRows> folded;
  for (const log::FoldedRows& rows : fold.tables) {
    const uint32_t dim = DimOf(rows.table);
    for (size_t i = 0; i < rows.keys.size(); ++i) {
      const auto row = rows.values.begin() + static_cast<ptrdiff_t>(i * dim);
      folded[rows.table][rows.keys[i]].assign(row, row + dim);
    }
  }
  if (folded != expected) {
    verdict_.Violated("Once", absl::StrCat("segment ", segment.v, ": the fold of clock ", fold.clock,
                                           " is not the sum of its parts"));
  }
  FollowMeans(ledger, segment, fold, expected);
}

uint32_t Invariants::DimOf(TableId table) const {
  return truth_.PurposeOf(table) == Purpose::kMeans ? kMeanColumns : kColumns;
}

// By the members of the clock, whether they pushed anything or not.
void Invariants::DivideMeans(const SegmentLedger& ledger, const log::Fold& fold,
                             std::map<TableId, TableRows>& folded) const {
  const auto members = static_cast<float>(std::ranges::count_if(ledger.sessions, [&](const auto& session) {
    return session.second.joined && truth_.JobOf(session.first) == fold.job &&
           session.second.Takes(fold.clock);
  }));
  for (auto& [id, rows] : folded) {
    if (!truth_.IsMean(id)) continue;
    for (auto& [key, row] : rows) {
      for (float& value : row) value = value / members;
    }
  }
}

// Keeps the rows of tables of means, and how they were at each clock.
void Invariants::FollowMeans(SegmentLedger& ledger, SegmentId segment, const log::Fold& fold,
                             const std::map<TableId, TableRows>& folded) {
  for (const auto& [id, rows] : folded) {
    if (truth_.PurposeOf(id) != Purpose::kMeans) continue;
    LoggedTable& table = ledger.tables[id];
    LoggedTable::Rows held = RowsOf(ledger, segment, id);
    for (const auto& [key, row] : rows) {
      std::vector<double>& of_key = held[key];
      of_key.resize(row.size());
      for (size_t c = 0; c < row.size(); ++c) of_key[c] = static_cast<float>(of_key[c]) + row[c];
    }
    table.rows = std::make_shared<const LoggedTable::Rows>(std::move(held));
    auto& states = means_[{segment, id}];
    // Later clocks were folded in an epoch whose end came to nothing.
    states.erase(states.upper_bound(fold.clock), states.end());
    states[fold.clock + 1] = table.rows;
  }
}

// The last fold was discarded.
void Invariants::ForgetMeans(SegmentId segment) {
  for (auto& [where, states] : means_) {
    if (where.first != segment) continue;
    const auto& rows = ledgers_[segment.v].tables[where.second].rows;
    while (!states.empty() && states.rbegin()->second != rows) states.erase(std::prev(states.end()));
  }
}

void Invariants::Means(const TrueRead& read, uint64_t key, uint32_t column, float value) {
  const auto placement = ring::Placement::Sparse(read.table, ring_bits_);
  const States& states = means_[{placement->Of(key), read.table}];
  const auto at = [&](States::const_iterator state) {
    const auto row = state->second->find(key);
    return row == state->second->end() ? 0 : static_cast<float>(row->second[column]);
  };
  auto state = states.upper_bound(read.min_clock);  // the one before it is what is promised
  const float promised =
      state == states.begin() ? truth_.LoadedOf(read.table, key, column) : at(std::prev(state));
  if (value == promised) return;
  for (; !read.exact && state != states.end(); ++state) {
    if (value == at(state)) return;
  }
  verdict_.Violated("ReadBound",
                    absl::StrCat("session ", read.reader.v, " reads ", value, " for key ", key, " of table ",
                                 read.table.v, "; at clock ", read.min_clock, " it is ", promised));
}

}  // namespace paceline::sim
