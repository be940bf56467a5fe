// The cache beside a reference that keeps whole logs and replays them: random pushes and pulls, answers that
// come late and out of order, or not at all, new primaries that lack the last records, little room.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "libs/world/random.h"
#include "sdk/cpp/src/cache/cache.h"
#include "sdk/cpp/src/testing/cache_tables.h"

namespace paceline::sdk {
namespace {

using testing::Bytes;
using testing::Certified;
using testing::FakeCluster;
using testing::Grouped;
using testing::kRingBits;
using testing::MakeTable;

// One record: a part of the client, one of somebody else, or (without keys) what moves the min clock.
struct Record {
  PartNumber own = 0;  // number, if it is the client's
  uint32_t table = 0;
  std::vector<uint64_t> keys = {};
  std::vector<float> values = {};
  Clock min_clock = 0;  // from here on
};

struct Segment {
  uint64_t epoch = 1;
  std::vector<uint64_t> began{0, 0};  // by epoch
  std::vector<Record> log;
  std::map<uint64_t, std::vector<Record>> logs;  // as they were when their epoch ended
  std::vector<Record> made;                      // the client's parts by number, committed or not

  Clock MinClock() const { return log.empty() ? 0 : log.back().min_clock; }
  PartNumber Applied() const {
    PartNumber applied = 0;
    for (const Record& record : log) applied = std::max(applied, record.own);
    return applied;
  }
  const std::vector<Record>& LogOf(uint64_t of_epoch) const {
    return of_epoch == epoch ? log : logs.at(of_epoch);
  }
};

class World : private CacheWatcher {
 public:
  World(uint64_t seed, uint64_t bytes, uint64_t trial_rows)
      : random_(seed), bytes_(bytes), cache_(bytes, trial_rows), segments_(1 << kRingBits) {
    tables_ = {MakeTable(1, table::Add{}, 2), MakeTable(2, table::Sgd{.lr = 0.3f}, 3),
               MakeTable(3, table::Assign{}, 1), MakeTable(4, table::Adagrad{}, 1),
               MakeTable(5, table::Add{}, 2, /*aggregated=*/true)};
    cache_.Watch(this);
  }

  void Step() {
    switch (world::Uniform(random_, 10)) {
      case 0:
      case 1:
        return Push();
      case 2:
        return Pull();
      case 3:
      case 4:
        return Deliver();
      case 5:
        return ApplyOwn();
      case 6:
        return ApplyOther();
      case 7:
        return world::Chance(random_, 0.1) ? Takeover() : Refreshed();
      default:
        return Read();
    }
  }

  struct Seen {
    uint64_t hits = 0, with_own = 0, voids = 0, replies = 0, late = 0, refreshed = 0, rests = 0, sampled = 0;
  };
  Seen seen;

 private:
  TableInfo& AnyTable() { return tables_[world::Uniform(random_, tables_.size())]; }
  static constexpr uint64_t kKeys = 12;
  uint64_t AnyKey() { return world::Uniform(random_, kKeys); }
  std::vector<uint64_t> SomeKeys() {
    std::vector<uint64_t> keys;
    for (uint64_t n = 1 + world::Uniform(random_, 5); n > 0; --n) keys.push_back(AnyKey());
    return keys;
  }
  std::vector<float> Gradients(const TableInfo& table, size_t keys) {
    std::vector<float> values(keys * table.schema.dim);
    for (float& value : values) value = static_cast<float>(world::UnitInterval(random_) - 0.5);
    return values;
  }

  static std::vector<uint64_t> KeysOf(const Batch& batch, const Batch::Piece& piece) {
    std::vector<uint64_t> keys(piece.entries);
    std::memcpy(keys.data(), batch.Keys(piece).data(), batch.KeyBytes(piece));
    return keys;
  }

  void Push() {
    const TableInfo& table = AnyTable();
    const std::vector<uint64_t> keys = SomeKeys();
    const auto batch = Grouped(table, keys, Gradients(table, keys.size()));
    for (const Batch::Piece& piece : batch->pieces) {
      Segment& segment = segments_[piece.segment.v];
      Record record{.table = table.id.v, .keys = KeysOf(*batch, piece)};
      record.values.resize(piece.rows * table.schema.dim);
      std::memcpy(record.values.data(), batch->Values(piece).data(), batch->ValueBytes(piece));
      if (table.schema.aggregated) {
        // On the other line, folded whenever.
        record.min_clock = segment.MinClock();
        segment.log.push_back(record);
        cache_.OnPush(table, *batch, piece, 1000);
        continue;
      }
      record.own = segment.made.size() + 1;
      segment.made.push_back(record);
      cache_.OnPush(table, *batch, piece, record.own);
    }
  }

  // A pull is served some time after it was made, and its answer comes some time after that, if it comes.
  struct Asked {
    const TableInfo* table = nullptr;
    std::shared_ptr<const Batch> batch;
    std::vector<PartNumber> named;
    std::vector<bool> served;
    bool kept = false;
    size_t left = 0;
  };
  struct Answer {
    std::shared_ptr<Asked> asked;
    size_t piece = 0;
    wire::Certificate certificate;
    std::vector<float> values;
  };

  void Pull() {
    auto asked = std::make_shared<Asked>();
    asked->table = &AnyTable();
    asked->batch = Grouped(*asked->table, SomeKeys());
    for (const Batch::Piece& piece : asked->batch->pieces) {
      asked->named.push_back(segments_[piece.segment.v].made.size());
    }
    asked->served.resize(asked->named.size());
    asked->left = asked->named.size();
    asked->kept = cache_.Wants(*asked->table, asked->batch->rows);
    if (asked->kept) cache_.OnPullBegun(*asked->table);
    asked_.push_back(asked);
  }

  // Serves what can be served, then lets some answer arrive: any of them.
  void Deliver() {
    for (const auto& asked : asked_) {
      for (size_t p = 0; p < asked->named.size(); ++p) {
        const Batch::Piece& piece = asked->batch->pieces[p];
        const Segment& segment = segments_[piece.segment.v];
        if (asked->served[p] || segment.Applied() < asked->named[p] || world::Chance(random_, 0.5)) continue;
        asked->served[p] = true;
        std::vector<float> values;
        for (uint64_t key : KeysOf(*asked->batch, piece)) {
          for (float value : Replay(*asked->table, key, segment.log, segment.log.size()))
            values.push_back(value);
        }
        answers_.push_back(
            {.asked = asked,
             .piece = p,
             .certificate = Certified(piece.segment, segment.log.size(), segment.MinClock(),
                                      segment.Applied(), segment.epoch, segment.began[segment.epoch]),
             .values = std::move(values)});
      }
    }
    if (answers_.empty()) return;
    const auto it = answers_.begin() + static_cast<long>(world::Uniform(random_, answers_.size()));
    const Answer answer = *it;
    answers_.erase(it);
    ++seen.replies;
    const Batch::Piece& piece = answer.asked->batch->pieces[answer.piece];
    if (answer.certificate.own < segments_[piece.segment.v].made.size()) ++seen.late;
    cache_.Learn(answer.certificate);
    if (answer.asked->kept) {
      cache_.OnServed(*answer.asked->table, *answer.asked->batch, piece, answer.certificate,
                      Bytes(answer.values));
    }
    heard_[piece.segment.v][answer.certificate.epoch.v] = answer.certificate.began.v;
    if (--answer.asked->left > 0) return;
    if (answer.asked->kept) cache_.OnPullEnded(*answer.asked->table);
    asked_.erase(std::find(asked_.begin(), asked_.end(), answer.asked));
  }

  // A refresh: served at some time, heard of at some later one, or never answered.
  struct Refreshing {
    const TableInfo* table = nullptr;
    Refresh refresh;
    PartNumber named = 0;
    bool served = false;
    wire::Certificate certificate = {};
    std::optional<uint32_t> count = std::nullopt;
    std::vector<uint64_t> keys = {};
    std::vector<float> values = {};
  };

  void ServeRefresh(Refreshing& asked) {
    const Segment& segment = segments_[asked.refresh.segment.v];
    if (segment.Applied() < asked.named) return;
    asked.served = true;
    const size_t now = segment.log.size();
    asked.certificate = Certified(asked.refresh.segment, now, segment.MinClock(), segment.Applied(),
                                  segment.epoch, segment.began[segment.epoch]);
    if (asked.refresh.since.v > now || asked.refresh.since.v < segment.began[segment.epoch]) return;
    for (uint64_t key = 0; key < kKeys; ++key) {
      if (asked.table->placement.Of(key) != asked.refresh.segment) continue;
      const auto at = [&](size_t records) { return Replay(*asked.table, key, segment.log, records); };
      bool changed = false;
      for (size_t r = asked.refresh.since.v; r < now && !changed; ++r) {
        const Record& record = segment.log[r];
        const bool touches = record.table == asked.table->id.v &&
                             std::find(record.keys.begin(), record.keys.end(), key) != record.keys.end();
        changed = touches && at(r) != at(r + 1);
      }
      if (!changed) continue;
      asked.keys.push_back(key);
      for (float value : at(now)) asked.values.push_back(value);
    }
    if (asked.keys.size() <= asked.refresh.rows_max) asked.count = static_cast<uint32_t>(asked.keys.size());
  }

  void Refreshed() {
    for (Refreshing& asked : refreshing_) {
      if (!asked.served && world::Chance(random_, 0.5)) ServeRefresh(asked);
    }
    if (refreshing_.empty()) return;
    const auto it = refreshing_.begin() + static_cast<long>(world::Uniform(random_, refreshing_.size()));
    const Refreshing asked = *it;
    if (!asked.served && !world::Chance(random_, 0.1)) return;
    refreshing_.erase(it);
    if (asked.served) {
      if (asked.count.has_value()) ++seen.refreshed;
      cache_.Learn(asked.certificate);
      heard_[asked.refresh.segment.v][asked.certificate.epoch.v] = asked.certificate.began.v;
      cache_.OnChanges(
          *asked.table, asked.certificate, asked.refresh.since, asked.count,
          {reinterpret_cast<const char*>(asked.keys.data()), asked.keys.size() * sizeof(uint64_t)},
          Bytes(asked.values));
    }
    cache_.OnRefreshEnded(*asked.table,
                          *BatchOf({&asked.refresh, 1}, asked.table->schema.dim, AllocateFresh));
  }

  void ApplyOwn() {
    for (Segment& segment : segments_) {
      const PartNumber next = segment.Applied();
      if (next >= segment.made.size() || world::Chance(random_, 0.5)) continue;
      Record record = segment.made[next];
      record.min_clock = segment.MinClock();
      segment.log.push_back(std::move(record));
    }
  }

  // Somebody else pushes, or the min clock moves on.
  void ApplyOther() {
    Segment& segment = segments_[world::Uniform(random_, segments_.size())];
    Record record{.min_clock = segment.MinClock() + (world::Chance(random_, 0.5) ? 1 : 0)};
    const TableInfo& table = AnyTable();
    const uint64_t key = AnyKey();
    const bool here = &segments_[table.placement.Of(key).v] == &segment;
    if (here) {
      record.table = table.id.v;
      record.keys = {key};
      record.values = Gradients(table, 1);
    }
    segment.log.push_back(std::move(record));
  }

  // A new primary, without some of the last records. The client sends its parts again. Min clocks that were
  // certified hold, so what is lost is what came after the last advance.
  void Takeover() {
    Segment& segment = segments_[world::Uniform(random_, segments_.size())];
    segment.logs[segment.epoch] = segment.log;
    for (uint64_t n = world::Uniform(random_, 4); n > 0 && !segment.log.empty(); --n) {
      const size_t size = segment.log.size();
      if (size >= 2 && segment.log[size - 1].min_clock != segment.log[size - 2].min_clock) break;
      segment.log.pop_back();
    }
    ++segment.epoch;
    segment.began.push_back(segment.log.size());
    // Answers of the earlier primary may still arrive, or be lost.
    for (const auto& asked : asked_) {
      for (size_t p = 0; p < asked->named.size(); ++p) {
        if (&segments_[asked->batch->pieces[p].segment.v] != &segment || !world::Chance(random_, 0.5))
          continue;
        const auto lost = std::remove_if(answers_.begin(), answers_.end(), [&](const Answer& answer) {
          return answer.asked == asked && answer.piece == p;
        });
        if (lost != answers_.end()) asked->served[p] = false;
        answers_.erase(lost, answers_.end());
      }
    }
    if (world::Chance(random_, 0.5)) return;
    v1::Map map = FakeCluster(kRingBits, 2).Map();
    for (size_t s = 0; s < segments_.size(); ++s)
      map.mutable_segments(static_cast<int>(s))->set_epoch(segments_[s].epoch);
    cache_.Learn(wire::MapFromProto(map).value());
  }

  void Read() {
    const TableInfo& table = AnyTable();
    const std::vector<uint64_t> keys = SomeKeys();
    const Clock now = segments_[0].MinClock() + 1;
    bound_ = {.min_clock = now - std::min(now, world::Uniform(random_, 12)),
              .exact = world::Chance(random_, 0.2),
              .own_writes = world::Chance(random_, 0.9)};
    std::vector<float> out(keys.size() * table.schema.dim, -77);
    std::vector<uint32_t> missing, old;
    ClockCounts hits;
    hits_.clear();
    if (!cache_.Has(table)) {
      cache_.Foretell(table, bound_, keys);
      ++seen.sampled;
    }
    const bool refresh = !table.schema.aggregated && world::Chance(random_, 0.7);
    cache_.Read(table, bound_, keys, 0, static_cast<uint32_t>(keys.size()), out.data(), missing, hits,
                refresh ? &old : nullptr);
    missing.insert(missing.end(), old.begin(), old.end());
    if (refresh) {
      for (const Refresh& asked :
           cache_.TakeRefreshes(table, 1 + static_cast<uint32_t>(world::Uniform(random_, 3)))) {
        // Answers that lack pushes are of use too.
        const PartNumber named = world::Chance(random_, 0.2) ? segments_[asked.segment.v].made.size() : 0;
        refreshing_.push_back({.table = &table, .refresh = asked, .named = named});
      }
    }
    ASSERT_EQ(hits_.size() + missing.size(), keys.size());
    ASSERT_LE(cache_.bytes(), bytes_);
    size_t hit = 0;
    for (uint32_t i = 0; i < keys.size(); ++i) {
      if (std::find(missing.begin(), missing.end(), i) != missing.end()) continue;
      ASSERT_EQ(hits_[hit].key, keys[i]);
      Judge(table, hits_[hit++], absl::MakeConstSpan(out).subspan(i * table.schema.dim, table.schema.dim));
    }
  }

  void Judge(const TableInfo& table, const CachedRow& row, absl::Span<const float> values) {
    ++seen.hits;
    const Segment& segment = segments_[row.segment.v];
    // The bound.
    ASSERT_TRUE(bound_.exact ? row.min_clock == bound_.min_clock : row.min_clock >= bound_.min_clock);
    // The void: every beginning since is known, and none lies before the version.
    const auto& heard = heard_[row.segment.v];
    for (uint64_t epoch = row.epoch.v + 1; epoch <= heard.rbegin()->first; ++epoch) {
      ASSERT_TRUE(heard.contains(epoch)) << "missed epoch " << epoch;
      ASSERT_LE(row.version.v, heard.at(epoch));
    }
    if (heard.rbegin()->first > row.epoch.v) ++seen.voids;
    // The values: the log up to the version, then the client's own pushes since.
    const std::vector<Record>& log = segment.LogOf(row.epoch.v);
    std::vector<Record> all(log.begin(), log.begin() + static_cast<long>(row.version.v));
    PartNumber own = 0;
    for (const Record& record : all) own = std::max(own, record.own);
    ASSERT_EQ(row.min_clock, all.empty() ? 0 : all.back().min_clock);
    const bool additive = table.id.v == 1 || table.id.v == 2;
    for (PartNumber n = own + 1; n <= segment.made.size() && !table.schema.aggregated; ++n) {
      const Record& record = segment.made[n - 1];
      const bool touches = record.table == table.id.v &&
                           std::find(record.keys.begin(), record.keys.end(), row.key) != record.keys.end();
      if (!touches) continue;
      if (additive) {
        all.push_back(record);
        ++seen.with_own;
      } else {
        ASSERT_FALSE(bound_.own_writes) << "part " << n << " is missing";
      }
    }
    ASSERT_THAT(Replay(table, row.key, all, all.size()), ::testing::ElementsAreArray(values));
  }

  // A row by its rule, record by record.
  static std::vector<float> Replay(const TableInfo& table, uint64_t key, const std::vector<Record>& log,
                                   size_t records) {
    const table::RuleKernel kernel(table.schema.rule);
    const uint32_t dim = table.schema.dim;
    std::vector<float> row(dim * kernel.floats_per_value());
    kernel.InitSlots(row.data(), dim, dim);
    for (size_t r = 0; r < records; ++r) {
      const Record& record = log[r];
      if (record.table != table.id.v) continue;
      std::vector<float> sum;
      for (size_t i = 0; i < record.keys.size(); ++i) {
        if (record.keys[i] != key) continue;
        const float* gradient = record.values.data() + i * dim;
        if (sum.empty() || kernel.last_wins()) {
          sum.assign(gradient, gradient + dim);
        } else {
          for (uint32_t d = 0; d < dim; ++d) sum[d] = sum[d] + gradient[d];
        }
      }
      if (!sum.empty()) kernel.Apply(row.data(), dim, sum.data(), dim);
    }
    row.resize(dim);
    return row;
  }

  void Hit(const CachedRow& row) override { hits_.push_back(row); }
  void Rests(TableId) override { ++seen.rests; }

  world::SplitMix64 random_;
  const uint64_t bytes_;
  RowCache cache_;
  std::vector<TableInfo> tables_;
  std::vector<Segment> segments_;
  std::vector<std::shared_ptr<Asked>> asked_;
  std::vector<Answer> answers_;
  std::vector<Refreshing> refreshing_;
  std::map<uint32_t, std::map<uint64_t, uint64_t>> heard_;  // by segment: where epochs began
  CacheBound bound_;
  std::vector<CachedRow> hits_;
};

World::Seen PlaySeeds(uint64_t bytes, uint64_t trial_rows = CacheTrial::kRows) {
  World::Seen seen;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    World world(seed, bytes, trial_rows);
    for (int i = 0; i < 1600 && !::testing::Test::HasFatalFailure(); ++i) world.Step();
    if (::testing::Test::HasFatalFailure()) {
      ADD_FAILURE() << "seed " << seed;
      break;
    }
    seen.hits += world.seen.hits;
    seen.with_own += world.seen.with_own;
    seen.voids += world.seen.voids;
    seen.replies += world.seen.replies;
    seen.late += world.seen.late;
    seen.refreshed += world.seen.refreshed;
    seen.rests += world.seen.rests;
    seen.sampled += world.seen.sampled;
  }
  return seen;
}

TEST(CacheProperty, HandsOutTheRowsOfAReplayedLog) {
  const World::Seen seen = PlaySeeds(1 << 20);
  EXPECT_GT(seen.hits, 20'000u);
  EXPECT_GT(seen.with_own, 5'000u);  // pushes that no certificate covered
  EXPECT_GT(seen.voids, 100u);       // rows of an epoch before that are still good
  EXPECT_GT(seen.late, 5'000u);      // answers that lack a push
  EXPECT_GT(seen.refreshed, 500u);   // answers that say what has changed
}

TEST(CacheProperty, HoldsWithLittleRoomToo) {
  const World::Seen seen = PlaySeeds(2'000);
  EXPECT_GT(seen.hits, 3'000u);
  EXPECT_GT(seen.with_own, 100u);
}

// Tables rest, are sampled and are kept again, while pulls are under way.
TEST(CacheProperty, HoldsWhileTablesComeAndGo) {
  const World::Seen seen = PlaySeeds(1 << 20, /*trial_rows=*/8);
  EXPECT_GT(seen.hits, 500u);
  EXPECT_GT(seen.rests, 200u);
  EXPECT_GT(seen.sampled, 1'000u);
}

}  // namespace
}  // namespace paceline::sdk
