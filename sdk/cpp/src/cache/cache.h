#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "libs/base/ids.h"
#include "libs/ring/segment_map.h"
#include "libs/table/rule.h"
#include "libs/wire/packed.h"
#include "libs/world/clock.h"
#include "sdk/cpp/src/cache/cache_sample.h"
#include "sdk/cpp/src/cache/cache_trial.h"
#include "sdk/cpp/src/cache/row_table.h"
#include "sdk/cpp/src/cache/stamps.h"
#include "sdk/cpp/src/push/batch.h"

namespace paceline::sdk {

class CordReader;
struct TableInfo;

// The bound that a read sets for cached rows.
struct CacheBound {
  Clock min_clock = 0;     // the row holds every update of smaller clocks
  bool exact = false;      // and none of this clock or a later one: bulk synchronous
  bool own_writes = true;  // and every push of this client
};

// A row as the cache holds it.
struct CachedRow {
  TableId table;
  uint64_t key = 0;
  SegmentId segment;
  Epoch epoch;  // with `version`: the version that the row was read at
  Lsn version;
  Clock min_clock = 0;
  PartNumber own = 0;     // the client's parts of the arrival line that the read covered
  PartNumber pushed = 0;  // the newest part that touched the row
};

// Sees the rows that the cache hands out. For tests and records that check them.
class CacheWatcher {
 public:
  virtual ~CacheWatcher() = default;
  virtual void Hit(const CachedRow& row) = 0;
  // The cache keeps no rows of the table for a while.
  virtual void Rests(TableId /*table*/) {}
};

// A change of the rows of one table that shards are to tell of.
struct SetChange {
  uint32_t number = 0;  // larger than that of any change before
  bool leave = false;   // these keys leave; of a segment without keys, all
  std::vector<std::pair<SegmentId, std::vector<uint64_t>>> segments;
};

// What a pull whose rows were kept cost.
struct Fetched {
  uint64_t rows = 0;  // 0: it brought none
  absl::Duration took;
  uint64_t pulls = 1;  // that were under way at its end, with it
};

// How many rows were read at which min clock.
class ClockCounts {
 public:
  void Add(Clock clock, uint64_t rows = 1) {
    for (size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i].first != clock) continue;
      counts_[i].second += rows;
      if (i > 0) std::swap(counts_[i], counts_[i - 1]);  // the frequent ones come first
      return;
    }
    counts_.emplace_back(clock, rows);
  }
  const std::vector<std::pair<Clock, uint64_t>>& counts() const { return counts_; }

 private:
  std::vector<std::pair<Clock, uint64_t>> counts_;
};

// The rows that a client has read, for as long as a read may take them again: one at a bound that the row's
// certificate meets. One cache serves all tables of a client. Single owner, no locks, no clock of its own.
//
// **Own pushes.** A read must hold the client's own pushes. Under a rule that changes a row by a function of
// the gradient alone (Add, Sgd), a push is applied to the cached row at once, by the table's own kernel.
// Under any other rule a push makes a cached row unfit until a certificate covers the push. Answers to pulls
// that were under way at the time may arrive after the push without covering it: they must neither replace a
// row nor add one. So the cache remembers keys that are pushed while pulls are under way; for keys that it
// had to forget it keeps one part number for the whole segment. Rows of aggregated tables show folded clocks
// only: pushes do not touch them.
//
// **Void versions.** When a segment's primary changes, records that the old one had applied and not
// replicated are gone. A certificate says where its epoch began: a row of the epoch before is void if its
// version is later than that. If the client knows of an epoch but not yet where it began, or has missed one
// in between, the cache hands out no earlier row.
//
// **Refreshing.** A row that is too old for a read need not have changed since. The client asks the shard
// which rows of a segment have changed since some version. The answer has these rows only; all others that
// were current as of that version, or a later one, are then current as of the version of the answer. Such
// answers form a *chain*: each begins where the one before ended, and the rows of the chain are as new as its
// end. If an answer would have more rows than a pull by key would fetch, the shard says so, and a new chain
// begins.
//
// **Being told.** Under ESSP shards tell which rows of the client's *set*, those that it has read, have
// changed (docs/wire.md, Subscribe). An *update* covers the records after one version up to another. A row is
// told of once an update knows the change that put it into the set, and began no later than the row's
// version. From then on it is as new as the last update, as long as each update follows the one before. If
// one does not, if the set is gone, or the epoch is another one, the rows are pulled when they are too old,
// and join anew. Under a budget an update may leave out rows that have changed: such a row is not told of
// until an update brings it, even if it was pulled meanwhile. A row that is sent for some `staleness` clocks
// without being read leaves the set.
//
// **Size.** At most `bytes_max`, counting 72 bytes for each row beside its values, and 60 for each stamp:
// what the rows of one part of an answer are as of, however many they are. Beyond that the cache evicts rows
// by the second-chance algorithm (CLOCK; Corbató 1968), first those that are too old for the bound of their
// table's last read. Pushes that are kept to be applied again may take a quarter as much beside that, and
// each table with rows the rest of its last chunks: a few MiB once it has had that much.
//
// **Paying.** The cache measures what its work costs and what a pull costs, and suspends a table whose hits
// do not pay for it (cache_trial.h). While it does not keep the rows of a table, pushes to it are only noted:
// an answer to a pull that was under way then adds no row that may lack one.
//
// Cost: a row read, pushed or put is one probe of a hash table and its copy; batches prefetch the memory. A
// hit touches one line of the index and those of the values (row_table.h): what else a read must know of the
// row is judged once for all rows of a stamp (stamps.h).
class RowCache {
 public:
  // `bytes_max` 0: off. The cache keeps nothing and finds nothing. `clock` measures its work, and must
  // outlive the cache; nullptr: it goes by typical costs.
  explicit RowCache(uint64_t bytes_max, uint64_t trial_rows = CacheTrial::kRows,
                    const world::Clock* clock = nullptr)
      : bytes_max_(bytes_max), trial_rows_(trial_rows), clock_(clock) {}
  RowCache(const RowCache&) = delete;
  RowCache& operator=(const RowCache&) = delete;

  bool enabled() const { return bytes_max_ > 0; }
  // Fetching a range of small rows is faster than looking each of them up.
  static bool WorthIt(bool ranges, uint32_t dim) {
    constexpr uint32_t kRangeDimMin = 32;
    return !ranges || dim >= kRangeDimMin;
  }
  uint64_t bytes() const { return row_bytes_ + stamps_.bytes(); }
  uint64_t rows() const { return ring_.size(); }

  // -- reads --

  // Whether a read of the table can find anything.
  bool Has(const TableInfo& table) const;
  // Whether to keep the rows of a pull of `rows` rows, or to note them in a sample. Call it once for each
  // pull whose rows may be kept.
  bool Wants(const TableInfo& table, uint64_t rows);
  // True: the next read is to find nothing, to show what a pull of all its rows costs.
  bool TakesWholePull(const TableInfo& table);
  // A read that could find nothing, with its keys, or the range first .. first + rows - 1. Notes what it
  // would have found, if the table is sampled (cache_sampling.cc).
  void Foretell(const TableInfo& table, const CacheBound& bound, absl::Span<const uint64_t> keys);
  void ForetellRange(const TableInfo& table, const CacheBound& bound, uint64_t first, uint64_t rows);
  // Copies those of keys[from .. to) that are fit to their places (row i to out + i * dim), and appends the
  // positions of the others to `missing`. `hits` counts the rows copied.
  void Read(const TableInfo& table, const CacheBound& bound, absl::Span<const uint64_t> keys, uint32_t from,
            uint32_t to, float* out, std::vector<uint32_t>& missing, ClockCounts& hits,
            std::vector<uint32_t>* old = nullptr);
  // The same for some of the rows of a larger read: row i goes to out + places[i] * dim, and the function
  // appends places[i].
  void ReadPlaces(const TableInfo& table, const CacheBound& bound, absl::Span<const uint64_t> keys,
                  absl::Span<const uint32_t> places, float* out, std::vector<uint32_t>& missing,
                  ClockCounts& hits);
  // The refreshes to ask for after reads that were given `old`, which has the positions of rows that are
  // cached and would be fit if they have not changed. Each segment has at most one refresh under way.
  // `worth`: bringing one row up to date is worth pulling this many rows, because it is read more than once.
  std::vector<Refresh> TakeRefreshes(const TableInfo& table, uint32_t worth);
  // The same for keys first + from .. first + to - 1.
  void ReadRange(const TableInfo& table, const CacheBound& bound, uint64_t first, uint32_t from, uint32_t to,
                 float* out, std::vector<uint32_t>& missing, ClockCounts& hits);

  // -- pushes and pulls of the client --

  // `piece` was made part `number` of its segment.
  void OnPush(const TableInfo& table, const Batch& batch, const Batch::Piece& piece, PartNumber number);
  // The client pushes parts to the table whose numbers it does not know yet. So it cannot tell which values
  // hold them, and from now on keeps no rows of the table.
  void OnLatePush(const TableInfo& table);
  // The part's content will never be applied: it was refused.
  void OnDropped(const TableInfo& table, const Batch& batch, const Batch::Piece& piece, PartNumber number);
  // The client's own pushes are of this rule from now on, of the same kind as before; nullopt: what they do
  // to a row is not known. Rows that hold pushes that no certificate covers become unfit.
  void OnRates(const TableInfo& table, const std::optional<table::Rule>& rule);
  // Nothing that was kept of the table's rows is read any more.
  void ForgetRows(const TableInfo& table);
  // A pull whose rows are to be kept begins, and ends. Calls come in pairs.
  void OnPullBegun(const TableInfo& table);
  void OnPullEnded(const TableInfo& table, const Fetched& fetched = {});

  // -- answers and maps --

  // The rows of `piece` as the shard served them. REQUIRES: Learn has seen the certificate; the pull was made
  // between OnPullBegun and OnPullEnded and named the client's last part of the segment, which the
  // certificate covers.
  void OnServed(const TableInfo& table, const Batch& batch, const Batch::Piece& piece,
                const wire::Certificate& certificate, const absl::Cord& values);
  // The answer to a refresh: the `count` rows that have changed, or nullopt if the shard does not say.
  // REQUIRES: Learn has seen the certificate.
  void OnChanges(const TableInfo& table, const wire::Certificate& certificate, Lsn since,
                 std::optional<uint32_t> count, absl::string_view keys, const absl::Cord& values);
  // A refresh of the segments of `batch` has ended, answered or not.
  void OnRefreshEnded(const TableInfo& table, const Batch& batch);
  // -- being told (cache_sets.cc) --
  // Segments whose sets are to be changed (TakeSetChange), since the last call.
  std::vector<SegmentId> TakeSetsChanged() { return std::exchange(sets_changed_, {}); }
  bool HasSetChange(const TableInfo& table, absl::FunctionRef<bool(SegmentId)> mine) const;
  // The next change of the table's sets, in those of its segments that are `mine`; nullopt: there is none. It
  // has at most kSetChangeKeys keys.
  static constexpr size_t kSetChangeKeys = 16384;
  std::optional<SetChange> TakeSetChange(const TableInfo& table, absl::FunctionRef<bool(SegmentId)> mine);
  // An update of the set: the `count` rows that have changed since `after`, or nullopt if the shard does not
  // say. It knows the changes up to `number`. `left_out`: the keys, 8 bytes each, of those that have changed
  // and are not brought. REQUIRES: Learn has seen the certificate.
  void OnUpdate(const TableInfo& table, const wire::Certificate& certificate, Lsn after, uint32_t number,
                std::optional<uint32_t> count, absl::string_view keys, const absl::Cord& values,
                absl::string_view left_out = {});
  // The set is gone. `pause`: it is not to be made anew for a while.
  void OnSetEnded(const TableInfo& table, SegmentId segment, bool pause);

  // Any certificate, of any table.
  void Learn(const wire::Certificate& certificate);
  void Learn(const ring::SegmentMap& map);

  // nullptr: no watcher.
  void Watch(CacheWatcher* watcher) { watcher_ = watcher; }

 private:
  using Entry = RowTable::Entry;
  using Rest = RowTable::Rest;
  using Row = RowTable::Row;

  // Describes the rows of one table in one segment that were read as of `epoch` and a version in begin ..
  // end: they hold all records up to `end`. See "Refreshing".
  struct Chain {
    bool there = false;
    Epoch epoch;
    Lsn begin;
    Lsn end;
    Clock min_clock = 0;
    uint32_t stamp = Stamps::kNone;  // of the end
    bool asked = false;              // a refresh is under way
    uint32_t wanted = 0;             // rows that were too old since the last refresh
    uint32_t cost = 0;               // rows that the last refresh brought
    uint32_t saved = 0;              // rows that were read since and would have been too old without it
    uint32_t pause = 0;              // clocks without a refresh, after one that did not pay; doubles
    Clock resume_at = 0;             // refreshes resume with reads at this bound
  };
  // The rows of one table in one segment that its shard tells of. See "Being told".
  struct Set {
    bool there = false;  // an update has come, and each one since followed the one before
    Epoch epoch;
    Lsn end;  // of the last update, as what follows
    uint32_t stamp = Stamps::kNone;
    uint32_t first = 1;  // rows of earlier changes are not in it any more
    uint32_t known = 0;  // the last change that an update knew
    std::deque<std::pair<uint32_t, std::vector<uint64_t>>> asked;  // later changes, and their keys
    std::vector<uint64_t> joining;                                 // keys of the next change
    std::vector<uint64_t> leaving;
    bool leaves = false;  // as a whole
    Clock resume_at = 0;  // no row joins before reads at this bound
  };
  // A push that was applied to a row.
  struct OwnPush {
    PartNumber number = 0;
    std::vector<float> gradient;
  };
  // Of one table.
  struct Rows {
    Rows(const TableInfo& table, uint64_t trial_rows, uint64_t bytes_max);

    const TableId table;
    const uint32_t dim;
    const bool aggregated;
    bool additive;              // an update changes a row by a function of the gradient alone
    const bool told;            // it has sets
    bool pushed_late = false;   // no rows are kept (OnLatePush)
    const uint32_t unread_max;  // a row that was sent so often without being read leaves its set
    table::RuleKernel kernel;
    RowTable held;
    Clock bound = 0;                                                 // of the newest read
    uint32_t pulls = 0;                                              // under way
    std::vector<Chain> chains;                                       // by segment
    std::vector<Set> sets;                                           // by segment
    absl::flat_hash_map<uint64_t, std::vector<OwnPush>> own_pushes;  // by key, oldest first
    CacheBound judged_bound;                                         // what stamps were judged for,
    uint64_t judged_after = 0;                                       // as of so many changes,
    uint64_t judging = 0;                                            // by this judging
    CacheTrial trial;
    CacheSample sample;              // empty unless the table is sampled
    std::vector<PartNumber> passed;  // by segment: the newest push while the rows were not kept
  };
  // What holds for all rows of a part that was served.
  struct Served {
    const wire::Certificate& certificate;
    uint32_t stamp = Stamps::kNone;
    PartNumber pushed = 0;   // a row that is not cached may lack a push up to this one
    bool overtaken = false;  // a refresh has overtaken the answer on another stream
  };
  // The segment's newest epoch, as far as it is known.
  struct Newest {
    Epoch epoch;
    bool began_known = false;
    Lsn began;
    PartNumber forgotten = 0;  // a push up to this one may have touched a key that is not cached
  };
  struct Touched {
    Entry* entry = nullptr;
    uint32_t at = 0;  // row of the piece
  };
  // A row, as the CLOCK hand comes to it.
  struct Held {
    Rows* rows = nullptr;
    uint64_t key = 0;
  };

  Rows* Find(TableId table) const;
  Rows& Of(const TableInfo& table);
  Newest& NewestOf(SegmentId segment);

  template <class KeyAt, class PlaceAt>
  void ReadRows(const TableInfo& table, const CacheBound& bound, KeyAt key_at, PlaceAt place_at,
                uint32_t from, uint32_t to, float* out, std::vector<uint32_t>& missing, ClockCounts& hits,
                std::vector<uint32_t>* old);
  // -- cache_hits.cc --
  // Stamps are judged once, until the bound changes, or what they are judged by. One is good if it is valid
  // and in bound, and nothing brings its rows up: they are fit, but for own pushes.
  void JudgeFor(Rows& rows, const CacheBound& bound);
  bool IsGood(const Rows& rows, const Entry& entry) const {
    return stamps_.judged(static_cast<uint32_t>(entry.stamp)).good_in == rows.judging;
  }
  void Judge(const Rows& rows, const Entry& entry, const CacheBound& bound);
  // Looks closely: the row is fit, once it is as new as it can be.
  bool FitNow(Rows& rows, Entry& entry, const CacheBound& bound);
  bool Fit(const Entry& entry, const CacheBound& bound) const;
  static bool InBound(const Stamp& stamp, const CacheBound& bound);
  // False: a later epoch has begun before that version, or may have.
  bool Valid(SegmentId segment, Epoch epoch, Lsn version) const;
  bool Valid(const Stamp& stamp) const { return Valid(stamp.segment, stamp.epoch, stamp.version); }
  bool TooOld(Rows& rows, const Entry& entry) const;
  void Report(const Rows& rows, const Row& row);

  // -- cache_refresh.cc --
  static Chain& ChainOf(Rows& rows, SegmentId segment);
  // The stamp is that of rows in its segment's chain.
  static bool InChain(const Rows& rows, const Stamp& stamp);
  // Makes the row current as of the end of its chain, or of the last update of its set.
  void BringUp(Rows& rows, Entry& entry);
  void BringTo(Rows& rows, Entry& entry, uint32_t stamp);
  // True: the row is not fit, but a refresh may make it so, and is wanted now.
  bool WantsRefresh(Rows& rows, const Entry& entry, const CacheBound& bound);
  void PutChanged(Rows& rows, uint64_t key, const wire::Certificate& certificate, uint32_t stamp,
                  CordReader& values);
  static void Pause(Chain& chain, Clock bound);
  // -- cache_sets.cc --
  static constexpr uint32_t kQueued = UINT32_MAX;
  static Set& SetOf(Rows& rows, SegmentId segment);
  static bool InSet(const Rest& rest, const Set& set) {
    return rest.set != 0 && rest.set != kQueued && rest.set >= set.first;
  }
  // What a row of this stamp needs to be told of.
  static bool InUpdates(const Rows& rows, const Stamp& stamp);
  bool IsTold(Rows& rows, const Entry& entry) const;
  void BringUpTold(Rows& rows, Entry& entry);
  // The row was fetched: it is in the set, or joins it.
  void Join(Rows& rows, const Row& row);
  static void ForgetEvicted(Rows& rows, Set& set);
  void Leave(Rows& rows, const Row& row);
  void PutTold(Rows& rows, Set& set, uint64_t key, const wire::Certificate& certificate, uint32_t stamp,
               CordReader& values);
  static void TakeLeaving(Rows& rows, absl::FunctionRef<bool(SegmentId)> mine, SetChange& change);
  static void TakeJoining(Rows& rows, absl::FunctionRef<bool(SegmentId)> mine, SetChange& change);
  // An update has left the row out.
  void LeaveOut(Rows& rows, Set& set, uint64_t key, uint32_t number);
  void Know(Rows& rows, Set& set, uint32_t number, const wire::Certificate& certificate, Lsn after);
  void EndSet(Set& set);
  // Under rules that add up, a row of an update that lacks pushes gets them again.
  void KeepOwn(Rows& rows, const Row& row, const char* gradient, PartNumber number);
  void ApplyOwn(Rows& rows, const Row& row);
  void ForgetOwn(Rows& rows, uint64_t key, PartNumber upto);

  // -- cache_pushes.cc --
  // The cached rows of `piece`, with the place of their values in it; `absent` if some are not cached.
  std::vector<Touched> Touch(Rows& rows, const Batch& batch, const Batch::Piece& piece, bool* absent) const;
  void Apply(Rows& rows, const std::vector<Touched>& touched, const char* gradients, PartNumber number);
  void ApplyOne(Rows& rows, const Row& row, const char* gradient, PartNumber number);
  void Remember(Rows& rows, const Batch& batch, const Batch::Piece& piece, PartNumber number);
  static std::vector<Touched> TouchKeys(Rows& rows, const Batch& batch, const Batch::Piece& piece,
                                        bool* absent);
  Served ServedOf(Rows& rows, const wire::Certificate& certificate);
  void PutKeys(Rows& rows, const Batch& batch, const Batch::Piece& piece, const Served& served,
               CordReader& values);
  void Put(Rows& rows, uint64_t key, const Served& served, CordReader& values);
  // -- cache_sampling.cc --
  template <class KeyAt>
  void ForetellRows(Rows& rows, const CacheBound& bound, uint64_t count, KeyAt key_at);
  static void NoteServed(Rows& rows, const Batch& batch, const Batch::Piece& piece, Clock min_clock);
  // A push while the rows are not kept.
  static void PassOver(Rows& rows, const Batch& batch, const Batch::Piece& piece, PartNumber number);
  // The trial has come to another state.
  void OnVerdict(Rows& rows);
  // One batch in some is measured; nullopt: this one is not.
  std::optional<absl::Time> Start(uint64_t rows);
  void Stop(const std::optional<absl::Time>& began, uint64_t rows, RowCost& cost) const;

  // -- cache_room.cc --
  const Stamp& StampOf(const Entry& entry) const { return stamps_[static_cast<uint32_t>(entry.stamp)]; }
  void SetStamp(Entry& entry, uint32_t stamp) {
    if (stamp != Stamps::kNone) stamps_.Hold(stamp);
    stamps_.Release(static_cast<uint32_t>(entry.stamp));
    entry.stamp = stamp;
  }
  void VoidValues(Entry& entry) {
    SetStamp(entry, Stamps::kNone);
    entry.has_own = false;
  }
  // No row: there is no room.
  Row Add(Rows& rows, uint64_t key, SegmentId segment);
  bool Full(const Rows& rows) const {
    return bytes() + BytesOf(rows) > bytes_max_ || ring_.size() >= RowTable::kRowsMax;
  }
  static uint64_t BytesOf(const Rows& rows);
  bool EvictOne();
  // Makes room for what has come beside rows.
  void Trim();
  // REQUIRES: the hand points at the row.
  void Remove(Rows& rows, const Row& row);
  // Removes all rows of the table.
  void Clear(Rows& rows);
  // Notes that a row put for a key that is not cached may lack a push up to `number`.
  void Forget(SegmentId segment, PartNumber number);

  const uint64_t bytes_max_;
  const uint64_t trial_rows_;
  const world::Clock* const clock_;
  uint64_t row_bytes_ = 0;  // of all rows, without their stamps
  absl::flat_hash_map<TableId, std::unique_ptr<Rows>> tables_;
  std::vector<Newest> newest_;  // by segment
  Stamps stamps_;
  uint64_t changes_ = 1;    // of epochs, chains and sets, by which stamps are judged
  std::vector<Held> ring_;  // all rows
  size_t hand_ = 0;
  CacheWatcher* watcher_ = nullptr;
  uint32_t set_changes_ = 0;  // the number of the last one
  std::vector<SegmentId> sets_changed_;
  uint64_t own_bytes_ = 0;  // of the pushes that are kept
  uint32_t batches_ = 0;    // that might have been measured
};

}  // namespace paceline::sdk
