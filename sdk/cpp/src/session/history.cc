#include "sdk/cpp/src/session/history.h"

#include <algorithm>
#include <string_view>

#include "libs/base/crc32c.h"
#include "sdk/cpp/src/session/promise.h"
#include "sdk/cpp/src/session/table_info.h"

namespace paceline::sdk {
namespace {

// By what it promises, a checker of histories needs no other name.
history::Model ModelOf(const Promise& promise) {
  if (promise.exact) return history::Model::kBsp;
  return promise.staleness.has_value() ? history::Model::kSsp : history::Model::kAsp;
}

std::string_view View(absl::string_view bytes) {
  return {bytes.data(), bytes.size()};
}

}  // namespace

void History::TableOpened(const TableInfo& table) const {
  if (!enabled()) return;
  const Promise promise = PromiseOf(table.consistency);
  sink_->Record(history::TableOpened{.table = table.id,
                                     .name = table.name,
                                     .model = ModelOf(promise),
                                     .staleness = promise.staleness.value_or(0),
                                     .own_writes = promise.own_cached,
                                     .aggregated = table.schema.aggregated,
                                     .additive = table::IsAdditive(table.schema.rule)});
}

void History::Pushed(SegmentId segment, Line line, PartNumber number, Clock clock, TableId table,
                     const Batch& batch, const Batch::Piece& piece) const {
  if (!enabled()) return;
  sink_->Record(
      history::Pushed{.segment = segment,
                      .line = line,
                      .number = number,
                      .clock = clock,
                      .table = table,
                      .count = piece.entries,
                      .content = ExtendCrc32c(Crc32c(View(batch.Keys(piece))), View(batch.Values(piece)))});
}

void History::Failed(const absl::Status& why) const {
  if (!enabled()) return;
  sink_->Record(
      history::Failed{.code = static_cast<uint32_t>(why.code()), .why = std::string(why.message())});
}

uint64_t History::ReadBegun(const TableInfo& table, Clock reader, std::optional<Clock> min_clock) {
  if (!enabled()) return 0;
  sink_->Record(history::ReadBegun{.read = ++reads_,
                                   .table = table.id,
                                   .reader = reader,
                                   .bounded = min_clock.has_value(),
                                   .min_clock = min_clock.value_or(0)});
  return reads_;
}

void History::Certified(uint64_t read, const wire::Certificate& certificate, uint32_t rows) {
  if (!enabled()) return;
  Learn(certificate);
  sink_->Record(history::Certified{.read = read,
                                   .segment = certificate.segment,
                                   .epoch = certificate.epoch,
                                   .began = certificate.began,
                                   .version = certificate.version,
                                   .min_clock = certificate.min_clock,
                                   .own = certificate.own,
                                   .rows = rows});
}

void History::Hit(const CachedRow& row) {
  if (!enabled()) return;
  const auto [it, fresh] = hit_of_.try_emplace({row.segment, row.version}, hits_.size());
  if (!fresh) {
    history::CacheHit& hit = hits_[it->second];
    if (hit.epoch == row.epoch && hit.min_clock == row.min_clock && hit.own == row.own) {
      hit.pushed = std::max(hit.pushed, row.pushed);
      ++hit.rows;
      return;
    }
    it->second = hits_.size();
  }
  hits_.push_back({.segment = row.segment,
                   .epoch = row.epoch,
                   .version = row.version,
                   .min_clock = row.min_clock,
                   .own = row.own,
                   .pushed = row.pushed,
                   .rows = 1});
}

void History::HandedOut(const TableInfo& table, Clock reader, std::optional<Clock> min_clock) {
  if (hits_.empty()) return;
  const uint64_t read = ReadBegun(table, reader, min_clock);
  for (history::CacheHit& hit : hits_) {
    hit.read = read;
    sink_->Record(hit);
  }
  hits_.clear();
  hit_of_.clear();
}

History::Newest& History::NewestOf(SegmentId segment) {
  if (segment.v >= newest_.size()) newest_.resize(segment.v + 1);
  return newest_[segment.v];
}

void History::Learn(const wire::Certificate& certificate) {
  if (!enabled()) return;
  Newest& newest = NewestOf(certificate.segment);
  if (certificate.epoch < newest.epoch || (certificate.epoch == newest.epoch && newest.began_known)) return;
  newest = {.epoch = certificate.epoch, .began_known = true};
  sink_->Record(history::EpochKnown{.segment = certificate.segment,
                                    .epoch = certificate.epoch,
                                    .began_known = true,
                                    .began = certificate.began});
}

void History::Learn(const ring::SegmentMap& map) {
  if (!enabled()) return;
  for (uint32_t s = 0; s < map.SegmentCount(); ++s) {
    const SegmentId segment(s);
    Newest& newest = NewestOf(segment);
    if (map.EpochOf(segment) <= newest.epoch) continue;
    newest = {.epoch = map.EpochOf(segment), .began_known = false};
    sink_->Record(history::EpochKnown{.segment = segment, .epoch = newest.epoch});
  }
}

}  // namespace paceline::sdk
