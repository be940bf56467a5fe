#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libs/log/segment.h"
#include "libs/world/random.h"

namespace paceline::log {

// A random log as a primary might write it: records of every kind, several jobs, sparse and ranged tables of
// every rule, pages that are born and split. Each record fits the state that the records before it made.
class RandomHistory {
 public:
  static constexpr SegmentId kSegment{1};
  static constexpr int kRingBits = 2;

  explicit RandomHistory(uint64_t seed) : random_(seed) {}

  // The next record, already applied to segment().
  const Record& Next() {
    std::optional<Record> record;
    while (!record.has_value()) record = Try();
    segment_.Apply(*record);
    log_.push_back(*std::move(record));
    return log_.back();
  }

  const Segment& segment() const { return segment_; }
  // log()[i] is the record at LSN i + 1.
  const std::vector<Record>& log() const { return log_; }

 private:
  uint64_t Below(uint64_t n) { return world::Uniform(random_, n); }
  float Number() { return static_cast<float>(world::UnitInterval(random_) - 0.5); }

  std::optional<Record> Try() {
    const uint64_t dice = Below(100);
    if (dice < 60) return TryUpdate();
    if (dice < 72) return TryFold();
    if (dice < 76) return TryAdvance();
    if (dice < 82) return TryOpenTable();
    if (dice < 86) return TryOpenSession();
    if (dice < 91) return TryJoin();
    if (dice < 93) return TryFinish();
    if (dice < 95) return TryEvict();
    if (dice < 97) return TryChangeRule();
    if (dice < 98) return world::Chance(random_, 0.5) ? TryDropTable() : TryCloseJob();
    switch (Below(4)) {
      case 0: {
        const Cut cut{.id = ++last_cut_, .job = SomeJob(), .clock = Below(9)};
        if (cut.id % 3 != 0) return cut;
        const Subject subject{static_cast<Subject::Kind>(1 + cut.clock % 3), cut.job.v};
        return BeginChange{.subject = subject, .number = cut.id, .floor = cut.id / 2};
      }
      case 1:
        return TryLoad();
      case 2: {
        const JobId job = SomeJob();
        return EndLoad{.id = ++last_cut_, .job = job, .clock = segment_.MinClockOf(job) + Below(2)};
      }
      default:
        return BeginEpoch{Epoch(segment_.epoch().v + 1 + Below(2))};
    }
  }

  JobId SomeJob() { return JobId(static_cast<uint32_t>(1 + Below(3))); }

  std::optional<SessionId> SomeSession() {
    if (opened_.empty()) return std::nullopt;
    const SessionId id = opened_[Below(opened_.size())];
    if (segment_.FindSession(id) == nullptr) return std::nullopt;
    return id;
  }

  const Segment::Table* SomeTable() {
    if (segment_.tables().empty()) return nullptr;
    auto it = segment_.tables().begin();
    std::advance(it, Below(segment_.tables().size()));
    return it->second.get();
  }

  bool IsWorker(SessionId session) {
    const auto job = segment_.jobs().find(segment_.FindSession(session)->job);
    return job != segment_.jobs().end() && job->second.HasWorker(session);
  }

  table::Rule SomeRule() {
    switch (Below(8)) {
      case 0:
        return table::Assign{};
      case 1:
        return table::Add{};
      case 2:
        return table::Sgd{0.5f};
      case 3:
        return table::Adagrad{.lr = 0.1f, .initial_accumulator = 0.25f};
      case 4:
        return table::Adam{};
      case 5:
        return table::ProximalSgd{.lr = 0.5f, .l1 = 0.125f};
      case 6:
        return table::Expression{.slots = {{"n", 0.5f}, "last"},
                                 .params = {{"lr", 0.5f}},
                                 .code = "n = n + g*g;\nw = w - lr*(g + last) / (sqrt(n) * step); last = g"};
      default:
        return table::FtrlProximal{.l1 = 0.01f};
    }
  }

  std::optional<Record> TryOpenTable() {
    if (segment_.tables().size() >= 8) return std::nullopt;
    TableInfo info;
    info.id = TableId(next_table_);
    next_table_ += static_cast<uint32_t>(1 + Below(3));
    if (world::Chance(random_, 0.2) && next_table_ > 10) {  // the segment opens an older table late
      const TableId older(next_table_ - static_cast<uint32_t>(2 + Below(7)));
      if (segment_.FindTable(older) == nullptr && !segment_.IsDropped(older)) info.id = older;
    }
    info.job = SomeJob();
    info.name = "table-" + std::to_string(info.id.v);
    info.schema.rule = SomeRule();
    constexpr uint32_t kDims[] = {1, 3, 500, 2000};
    info.schema.dim = kDims[Below(4)];
    if (world::Chance(random_, 0.4)) {
      info.schema.kind = table::Kind::kRanged;
      info.schema.rows = 1024 + Below(3000);  // enough that each segment has a block
    }
    if (world::Chance(random_, 0.5)) info.schema.init = table::Uniform{-1, 1};
    info.schema.seed = Below(100);
    info.schema.aggregated = world::Chance(random_, 0.3);
    info.schema.mean = info.schema.aggregated && world::Chance(random_, 0.5);
    return OpenTable{std::make_shared<const TableInfo>(std::move(info))};
  }

  std::optional<Record> TryDropTable() {
    const Segment::Table* table = SomeTable();
    if (table == nullptr) return DropTable{TableId(next_table_++)};
    return DropTable{table->info->id};
  }

  std::optional<Record> TryCloseJob() {
    const JobId job = SomeJob();
    for (const SessionId id : opened_) {
      const Segment::SessionState* session = segment_.FindSession(id);
      if (session != nullptr && session->job == job) return std::nullopt;
    }
    CloseJob close{.job = job, .tables = {}};
    for (const auto& [id, table] : segment_.tables()) {
      if (table->info->job == job) close.tables.push_back(id);
    }
    return close;
  }

  std::optional<Record> TryChangeRule() {
    const Segment::Table* table = SomeTable();
    if (table == nullptr) return std::nullopt;
    ChangeRule change{.table = table->info, .rule = table->info->schema.rule};
    if (auto* sgd = std::get_if<table::Sgd>(&change.rule)) sgd->lr = 0.5f + 0.5f * Number();
    if (auto* adagrad = std::get_if<table::Adagrad>(&change.rule)) adagrad->lr = 0.5f + 0.5f * Number();
    if (auto* ftrl = std::get_if<table::FtrlProximal>(&change.rule)) ftrl->alpha = 0.5f + 0.5f * Number();
    if (auto* adam = std::get_if<table::Adam>(&change.rule)) adam->lr = 0.5f + 0.5f * Number();
    if (auto* written = std::get_if<table::Expression>(&change.rule)) {
      written->params[0].value = 0.5f + 0.5f * Number();
    }
    const Clock min_clock = segment_.MinClockOf(table->info->job);
    change.number = table->rules.last() + 1;
    change.bound = static_cast<uint32_t>(change.number % 3);
    change.at_once = world::Chance(random_, 0.3);
    change.clock = min_clock + (change.at_once ? 0 : Below(4));
    return change;
  }

  std::optional<Record> TryOpenSession() {
    size_t open = 0;
    for (const SessionId id : opened_) open += segment_.FindSession(id) != nullptr ? 1 : 0;
    if (open >= 8) return std::nullopt;
    opened_.push_back(SessionId(next_session_++));
    const uint64_t floor = opened_.size() > 12 ? opened_.size() - 12 : 0;
    return OpenSession{.session = opened_.back(), .job = SomeJob(), .closed_floor = SessionId(floor)};
  }

  std::optional<Record> TryJoin() {
    const std::optional<SessionId> session = SomeSession();
    if (!session || segment_.FindSession(*session)->finished || IsWorker(*session)) return std::nullopt;
    const Clock min_clock = segment_.MinClockOf(segment_.FindSession(*session)->job);
    return Join{
        .session = *session, .start = min_clock + Below(3), .rank = static_cast<uint32_t>(Below(100))};
  }

  std::optional<Record> TryFinish() {
    const std::optional<SessionId> session = SomeSession();
    if (!session || !IsWorker(*session)) return std::nullopt;
    return Finish{.session = *session,
                  .clock = segment_.MinClockOf(segment_.FindSession(*session)->job) + Below(4)};
  }

  std::optional<Record> TryEvict() {
    if (world::Chance(random_, 0.2)) return Evict{.session = SessionId(next_session_++)};  // not opened here
    const std::optional<SessionId> session = SomeSession();
    if (!session) return std::nullopt;
    return Evict{.session = *session,
                 .counts_below = segment_.MinClockOf(segment_.FindSession(*session)->job)};
  }

  std::optional<Record> TryAdvance() {
    const JobId job = SomeJob();
    const auto it = segment_.jobs().find(job);
    if (it == segment_.jobs().end() || it->second.workers().empty()) return std::nullopt;
    return Advance{.job = job, .min_clock = it->second.min_clock() + 1 + Below(2)};
  }

  std::optional<Record> TryUpdate() {
    const std::optional<SessionId> session = SomeSession();
    const Segment::Table* table = SomeTable();
    if (!session || table == nullptr) return std::nullopt;
    const Segment::SessionState& state = *segment_.FindSession(*session);
    Update update;
    update.session = *session;
    if (world::Chance(random_, 0.05)) {
      update.line = world::Chance(random_, 0.5) ? Line::kArrival : Line::kAggregated;
      update.number = state.applied.At(update.line) + 1;
      return update;
    }
    if (table->info->job != state.job || table->info->schema.aggregated) return std::nullopt;
    update.number = state.applied.At(update.line) + 1;
    update.table = table->info->id;
    update.clock = segment_.MinClockOf(state.job) + Below(3);
    FillRows(*table, update);
    return update;
  }

  // Keys, or ranges of a ranged table, that lie in the segment.
  void FillRows(const Segment::Table& table, Update& update) {
    struct Memory {
      std::vector<uint64_t> keys;
      std::vector<float> values;
    };
    auto memory = std::make_shared<Memory>();
    memory->keys = SomeKeys(table, 1 + Below(12));
    size_t rows = memory->keys.size();
    update.count = static_cast<uint32_t>(rows);
    if (table.placement.ranged() && world::Chance(random_, 0.5)) {
      update.form = KeyForm::kRanges;
      std::vector<uint64_t> ranges;
      rows = 0;
      for (const uint64_t key : memory->keys) {
        const uint64_t block_rows = table.placement.RowsPerBlock();
        const uint64_t block_end =
            std::min(table.placement.rows(), (key / block_rows + 1) * block_rows);  // of its block
        const uint64_t count = 1 + Below(std::min<uint64_t>(block_end - key, 5));
        ranges.insert(ranges.end(), {key, count});
        rows += count;
      }
      memory->keys = std::move(ranges);
    }
    memory->values.resize(rows * table.info->schema.dim);
    for (float& value : memory->values) value = Number();
    update.keys = {reinterpret_cast<const char*>(memory->keys.data()),
                   memory->keys.size() * sizeof(uint64_t)};
    update.values = {reinterpret_cast<const char*>(memory->values.data()),
                     memory->values.size() * sizeof(float)};
    update.owner = std::move(memory);
  }

  // Of a few that the table knows in all, so that rows are updated again.
  std::vector<uint64_t> SomeKeys(const Segment::Table& table, size_t count) {
    std::vector<uint64_t>& known = keys_[table.info->id];
    while (known.size() < (table.placement.ranged() ? 30 : 150)) {
      const uint64_t key = table.placement.ranged() ? Below(table.placement.rows()) : random_.Next();
      if (table.placement.Of(key) == kSegment) known.push_back(key);
    }
    std::vector<uint64_t> keys(count);
    for (uint64_t& key : keys) key = known[Below(known.size())];
    return keys;
  }

  std::optional<Record> TryLoad() {
    const Segment::Table* table = SomeTable();
    if (table == nullptr) return std::nullopt;
    Load load{.table = table->info->id, .keys = SomeKeys(*table, 1 + Below(20)), .rows = {}};
    load.rows.resize(load.keys.size() * table::FloatsPerRow(table->info->schema));
    for (float& value : load.rows) value = Number();
    return load;
  }

  std::optional<Record> TryFold() {
    const JobId job = SomeJob();
    const auto it = segment_.jobs().find(job);
    if (it == segment_.jobs().end() || it->second.workers().empty()) return std::nullopt;
    Fold fold{.job = job, .clock = it->second.min_clock(), .tables = {}, .numbers = {}};
    for (const auto& [id, table] : segment_.tables()) {
      if (table->info->job != job || !table->info->schema.aggregated) continue;
      FoldedRows rows{.table = id, .keys = SomeKeys(*table, 1 + Below(20)), .values = {}};
      std::sort(rows.keys.begin(), rows.keys.end());
      rows.keys.erase(std::unique(rows.keys.begin(), rows.keys.end()), rows.keys.end());
      rows.values.resize(rows.keys.size() * table->info->schema.dim);
      for (float& value : rows.values) value = Number();
      fold.tables.push_back(std::move(rows));
    }
    for (const auto& [session, worker] : it->second.workers()) {
      const PartNumber applied = segment_.FindSession(session)->applied.At(Line::kAggregated);
      fold.numbers.emplace_back(session, applied + Below(3));
    }
    return fold;
  }

  world::SplitMix64 random_;
  Segment segment_{kSegment, kRingBits};
  std::vector<Record> log_;
  std::vector<SessionId> opened_;
  std::map<TableId, std::vector<uint64_t>> keys_;
  uint64_t next_session_ = 1;
  uint32_t next_table_ = 1;
  uint64_t last_cut_ = 0;
};

}  // namespace paceline::log
