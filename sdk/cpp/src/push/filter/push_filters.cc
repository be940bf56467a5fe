#include "sdk/cpp/src/push/filter/push_filters.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "libs/base/little_endian.h"
#include "libs/base/planted.h"
#include "libs/filter/quantise.h"
#include "libs/filter/select.h"

namespace paceline::sdk {
namespace {

filter::Precision ToCore(PushPrecision precision) {
  switch (precision) {
    case PushPrecision::kF32:
      break;
    case PushPrecision::kF16:
      return filter::Precision::kF16;
    case PushPrecision::kBf16:
      return filter::Precision::kBf16;
    case PushPrecision::kInt8:
      return filter::Precision::kInt8;
  }
  return filter::Precision::kF32;
}

// The key of each row, in grouped order.
std::vector<uint64_t> KeysOf(const Batch& batch) {
  std::vector<uint64_t> keys;
  keys.reserve(batch.rows);
  const char* entry = batch.keys.get();
  for (uint32_t i = 0; i < batch.entries; ++i, entry += batch.EntryBytes()) {
    const uint64_t first = LoadU64(entry);
    const uint64_t count = batch.ranges ? LoadU64(entry + sizeof(uint64_t)) : 1;
    for (uint64_t k = 0; k < count; ++k) keys.push_back(first + k);
  }
  return keys;
}

// The same rows with other values.
std::shared_ptr<const Batch> WithValues(const Batch& batch, const std::vector<float>& values) {
  auto with = std::make_shared<Batch>(batch);
  with->values = AllocateFresh(values.size() * sizeof(float));
  std::memcpy(with->values.get(), values.data(), values.size() * sizeof(float));
  return with;
}

}  // namespace

// What is due to the rows of a push.
struct PushFilters::Due {
  std::vector<uint64_t> keys;
  std::vector<float> values;  // a copy of the batch's: others may share that
  uint32_t dim = 1;

  std::span<float> row(size_t i) { return {values.data() + i * dim, dim}; }
  std::span<const float> row(size_t i) const { return {values.data() + i * dim, dim}; }
};

PushFilters::Held& PushFilters::Of(const std::shared_ptr<const TableInfo>& table) {
  const auto found = tables_.find(table->id);
  if (found != tables_.end()) return found->second;
  filter::Residuals rows(table->schema.dim, table->push_filter.held_bytes_max);
  return tables_.emplace(table->id, Held{.table = table, .rows = std::move(rows)}).first->second;
}

std::shared_ptr<const Batch> PushFilters::Take(const std::shared_ptr<const TableInfo>& table,
                                               std::shared_ptr<const Batch> batch) {
  const PushFilter& filter = table->push_filter;
  if (!filter.active() || batch->rows == 0) return batch;
  Held& held = Of(table);
  Due due{.keys = KeysOf(*batch), .values = {}, .dim = batch->dim};
  due.values.resize(size_t{batch->rows} * batch->dim);
  std::memcpy(due.values.data(), batch->values.get(), due.values.size() * sizeof(float));
  for (size_t i = 0; i < due.keys.size(); ++i) held.rows.AddKept(due.keys[i], due.row(i));
  const std::vector<bool> chosen = Choose(filter, due);
  size_t sent = 0;  // the rows that are sent move to the front
  for (size_t i = 0; i < due.keys.size(); ++i) {
    const uint64_t key = due.keys[i];
    const std::span<float> row = due.row(i);
    const bool sends = chosen[i] ? Round(held.rows, filter, key, row) : !held.rows.Keep(key, row);
    if (!sends) continue;
    due.keys[sent] = key;
    std::copy(row.begin(), row.end(), due.row(sent).begin());
    ++sent;
  }
  due.keys.resize(sent);
  due.values.resize(sent * due.dim);
  std::shared_ptr<const Batch> left =
      sent == batch->rows ? WithValues(*batch, due.values) : Group(*table, due.keys, due.values);
  context_.stats.push_filter.rows_given += batch->rows;
  context_.stats.push_filter.bytes_given += batch->Bytes();
  CountSent(*table, *left);
  return left;
}

std::vector<bool> PushFilters::Choose(const PushFilter& filter, const Due& due) {
  std::vector<bool> chosen(due.keys.size(), true);
  if (filter.top_k.has_value()) {
    std::vector<float> magnitudes(due.keys.size());
    for (size_t i = 0; i < magnitudes.size(); ++i) magnitudes[i] = filter::MagnitudeOf(due.row(i));
    return filter::TopK(*filter.top_k).Choose(magnitudes);
  }
  if (filter.skip.has_value()) {
    const filter::RandomSkip skip(*filter.skip);
    for (size_t i = 0; i < chosen.size(); ++i) chosen[i] = skip.Sends(context_.random);
  }
  if (filter.significant.has_value()) {
    const filter::Significant significant({.threshold = *filter.significant, .decays = filter.decays});
    for (size_t i = 0; i < chosen.size(); ++i) {
      chosen[i] = significant.Sends(filter::MagnitudeOf(due.row(i)), 0, context_.worker_clock);
    }
  }
  return chosen;
}

bool PushFilters::Round(filter::Residuals& held, const PushFilter& filter, uint64_t key,
                        std::span<float> row) {
  if (filter.precision == PushPrecision::kF32) return true;
  rounded_.assign(row.begin(), row.end());
  filter::Quantise(ToCore(filter.precision), rounded_);
  rest_.resize(row.size());
  bool something = false, rest = false;
  for (size_t i = 0; i < row.size(); ++i) {
    rest_[i] = row[i] - rounded_[i];
    something |= rounded_[i] != 0;
    rest |= rest_[i] != 0;
  }
  if (!rest || !held.Keep(key, rest_)) return true;
  std::ranges::copy(rounded_, row.begin());
  return something;
}

std::vector<PushFilters::HeldBack> PushFilters::TakeAll() {
  std::vector<HeldBack> all;
  if (Planted(Bug::kHeldNotFlushed)) return all;
  for (auto& [id, held] : tables_) {
    if (held.rows.rows() == 0) continue;
    std::vector<uint64_t> keys;
    std::vector<float> values;
    held.rows.TakeAll([&](uint64_t key, std::span<const float> row) {
      keys.push_back(key);
      values.insert(values.end(), row.begin(), row.end());
    });
    std::shared_ptr<const Batch> batch = Group(*held.table, keys, values);
    CountSent(*held.table, *batch);
    all.push_back({.table = held.table, .batch = std::move(batch)});
  }
  return all;
}

void PushFilters::CountSent(const TableInfo& table, const Batch& batch) {
  context_.stats.push_filter.rows_sent += batch.rows;
  context_.stats.push_filter.bytes_sent += batch.Bytes();
  if (on_sent) on_sent(table, batch);
}

std::shared_ptr<const Batch> PushFilters::Group(const TableInfo& table, const std::vector<uint64_t>& keys,
                                                const std::vector<float>& values) const {
  return GroupKeys(*context_.routes, table.placement, table.schema.dim, keys, values, AllocateFresh);
}

uint64_t PushFilters::held_rows() const {
  uint64_t rows = 0;
  for (const auto& [id, held] : tables_) rows += held.rows.rows();
  return rows;
}

uint64_t PushFilters::held_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [id, held] : tables_) bytes += held.rows.bytes();
  return bytes;
}

}  // namespace paceline::sdk
