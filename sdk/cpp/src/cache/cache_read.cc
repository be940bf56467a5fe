#include "sdk/cpp/src/cache/cache_read.h"

#include <mutex>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "sdk/cpp/src/push/listed_keys.h"
#include "sdk/cpp/src/session/blocked_call.h"

namespace paceline::sdk {
namespace {

// Rows that one visit to the core looks up at most, so that other callers need not wait.
constexpr uint32_t kRowsAVisit = 4096;

// Copies the rows of one pull to their places. When the pull has ended with an error it writes nothing more:
// the memory may be gone.
class Receiver : public PullSink {
 public:
  using Ended = absl::AnyInvocable<void(absl::Status)>;
  // `out` has room for all rows of the batch, and for those that are there already.
  Receiver(std::shared_ptr<const Batch> batch, float* out, Ended ended)
      : batch_(std::move(batch)), out_(out), rows_left_(batch_->rows), ended_(std::move(ended)) {}

  void Rows(absl::Span<const Stretch> pieces, const absl::Cord& values) override {
    Ended ended;
    {
      const std::lock_guard lock(mutex_);
      if (!ended_) return;
      Scatter(*batch_, pieces, values, out_);
      for (const Stretch& stretch : pieces) rows_left_ -= stretch.piece->rows;
      if (!done_ || rows_left_ > 0) return;
      ended = std::exchange(ended_, nullptr);
    }
    const Ending ending(causes_);
    ended(absl::OkStatus());
  }

  void Done(absl::Status status) override {
    Ended ended;
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
      causes_ = internal::EndingCauses();
      if (!ended_ || (status.ok() && rows_left_ > 0)) return;
      ended = std::exchange(ended_, nullptr);
    }
    ended(std::move(status));
  }

 private:
  const std::shared_ptr<const Batch> batch_;
  float* const out_;
  std::mutex mutex_;  // guards what follows
  uint64_t rows_left_;
  bool done_ = false;
  std::shared_ptr<const Causes> causes_;  // of the pull, once it is done
  Ended ended_;                           // null: was called
};

// The findings of a read before it pulls.
struct Looked {
  absl::Status status;  // of the client
  std::shared_ptr<const Routes> routes;
  bool all_missing = true;  // then `missing` is empty
  std::vector<uint32_t> missing;
  // Positions of rows that may be good after the refreshes; there is something to ask even if there are none.
  std::vector<uint32_t> old;
  std::vector<Refresh> refreshes;
  CacheBound bound;
  Clock reader = 0;  // the worker's clock at the call
};

uint32_t RowsOf(const ReadCall& call) {
  return static_cast<uint32_t>(call.range ? call.count : call.keys.size());
}

// Looks up rows from .. to - 1.
void LookUp(ClientCore& core, const ReadCall& call, uint32_t from, uint32_t to, bool refresh,
            Looked& looked) {
  ClockCounts hits;
  if (call.range) {
    core.cache().ReadRange(*call.table, looked.bound, call.first, from, to, call.out, looked.missing, hits);
  } else {
    core.cache().Read(*call.table, looked.bound, call.keys, from, to, call.out, looked.missing, hits,
                      refresh ? &looked.old : nullptr);
  }
  core.CountCached(*call.table, hits, looked.reader, call.min_clock);
}

// Notes what a read that finds nothing would have found.
void Foretell(ClientCore& core, const ReadCall& call, const CacheBound& bound) {
  if (call.range) {
    core.cache().ForetellRange(*call.table, bound, call.first, call.count);
  } else {
    core.cache().Foretell(*call.table, bound, call.keys);
  }
}

// False: the client is gone.
bool LookUpAll(const EnterCore& enter, const ReadCall& call, Looked* looked) {
  const uint32_t rows = RowsOf(call);
  ClientCore::ReadRules rules;
  uint32_t from = 0;
  do {
    const bool entered = enter([&](ClientCore& core) {
      looked->status = core.failure();
      looked->routes = core.routes();
      if (!looked->status.ok()) return;
      if (from == 0) {
        rules = core.RulesOf(*call.table, call.min_clock);
        looked->bound = rules.bound;
        looked->reader = core.clock();
        const bool worth_it = RowCache::WorthIt(call.range, call.table->schema.dim);
        const bool cached = rules.cached && worth_it;
        looked->all_missing =
            !cached || !core.cache().Has(*call.table) || core.cache().TakesWholePull(*call.table);
        if (cached && looked->all_missing) Foretell(core, call, looked->bound);
        if (looked->all_missing) return;
        looked->missing.reserve(rows);
      }
      LookUp(core, call, from, std::min(rows, from + kRowsAVisit), rules.refresh, *looked);
      if (rules.refresh && from + kRowsAVisit >= rows) {
        looked->refreshes = core.cache().TakeRefreshes(*call.table, rules.refresh_worth);
      }
    });
    if (!entered) return false;
    from += kRowsAVisit;
  } while (from < rows && !looked->all_missing && looked->status.ok());
  if (looked->missing.size() == rows) {
    looked->all_missing = true;
    looked->missing.clear();
  }
  return true;
}

// Positions that follow each other, as ranges of keys.
std::vector<KeyRange> RangesOf(uint64_t first, const std::vector<uint32_t>& positions) {
  std::vector<KeyRange> ranges;
  for (uint32_t position : positions) {
    if (ranges.empty() || ranges.back().place + ranges.back().count != position) {
      ranges.push_back({.first = first + position, .count = 0, .place = position});
    }
    ++ranges.back().count;
  }
  return ranges;
}

// The rows that have to be fetched.
std::shared_ptr<const Batch> GroupMissing(const ReadCall& call, const Looked& looked, Allocate allocate) {
  const Routes& routes = *looked.routes;
  const TableInfo& table = *call.table;
  if (call.range) {
    std::vector<KeyRange> ranges = RangesOf(call.first, looked.missing);
    if (looked.all_missing) ranges = {{.first = call.first, .count = call.count, .place = 0}};
    return GroupRanges(routes, table.placement, table.schema.dim, ranges, allocate);
  }
  if (looked.all_missing && call.listed != nullptr) return call.listed->Grouped(looked.routes);
  if (looked.all_missing) {
    return GroupKeys(routes, table.placement, table.schema.dim, call.keys, {}, allocate);
  }
  std::vector<uint64_t> keys;
  keys.reserve(looked.missing.size());
  for (uint32_t position : looked.missing) keys.push_back(call.keys[position]);
  return GroupKeys(routes, table.placement, table.schema.dim, keys, {}, allocate, looked.missing);
}

// A read some of whose rows are too old, and may not have changed since. It asks which have changed and
// meanwhile pulls the rows that are not cached; then it looks at the old rows again, and pulls those that are
// still not fit.
class RefreshingRead : public PullSink, public std::enable_shared_from_this<RefreshingRead> {
 public:
  RefreshingRead(EnterCore enter, AllocateLater allocate, absl::Status gone, ReadCall call)
      : enter_(std::move(enter)),
        allocate_(std::move(allocate)),
        gone_(std::move(gone)),
        call_(std::move(call)) {}

  void Start(Looked& looked) {
    bound_ = looked.bound;
    reader_ = looked.reader;
    routes_ = looked.routes;
    places_ = std::move(looked.old);
    for (uint32_t place : places_) keys_.push_back(call_.keys[place]);
    left_ = 2;
    const auto refresh = BatchOf(looked.refreshes, call_.table->schema.dim, AllocateFresh);
    const bool entered = enter_([&](ClientCore& core) {
      core.Pull({.table = call_.table,
                 .batch = refresh,
                 .min_clock = bound_.min_clock,
                 .changes = true,
                 .reader = reader_,
                 .priority = call_.priority,
                 .timeout = call_.timeout,
                 .sink = shared_from_this()},
                call_.min_clock);
    });
    if (!entered) Done(gone_);
    std::vector<uint64_t> missing;
    for (uint32_t place : looked.missing) missing.push_back(call_.keys[place]);
    if (looked.all_missing) missing.assign(call_.keys.begin(), call_.keys.end());
    Pull(missing, looked.missing);
  }

  void Rows(absl::Span<const Stretch>, const absl::Cord&) override {}
  // The refresh has ended.
  void Done(absl::Status status) override {
    if (!status.ok()) return Ended(std::move(status));
    std::vector<uint32_t> still;  // places
    const bool entered = enter_([&](ClientCore& core) {
      ClockCounts hits;
      core.cache().ReadPlaces(*call_.table, bound_, keys_, places_, call_.out, still, hits);
      core.CountCached(*call_.table, hits, reader_, call_.min_clock);
    });
    if (!entered) return Ended(gone_);
    // Both are in the order of the call.
    std::vector<uint64_t> keys;
    for (size_t i = 0, at = 0; i < still.size(); ++i) {
      while (places_[at] != still[i]) ++at;
      keys.push_back(keys_[at]);
    }
    Pull(keys, still);
  }

 private:
  // Pulls the rows of `keys` to `places`, or to the places of a whole call, and then reports one of two ends.
  void Pull(const std::vector<uint64_t>& keys, const std::vector<uint32_t>& places) {
    if (keys.empty()) return Ended(absl::OkStatus());
    const auto batch =
        GroupKeys(*routes_, call_.table->placement, call_.table->schema.dim, keys, {}, allocate_, places);
    const auto receiver = MakeReceiver(batch, call_.out, [self = shared_from_this()](absl::Status status) {
      self->Ended(std::move(status));
    });
    const bool entered = enter_([&](ClientCore& core) {
      core.Pull({.table = call_.table,
                 .batch = batch,
                 .min_clock = bound_.min_clock,
                 .reader = reader_,
                 .priority = call_.priority,
                 .timeout = call_.timeout,
                 .sink = receiver},
                call_.min_clock);
    });
    if (!entered) receiver->Done(gone_);
  }

  // For the rows that were not cached, or for those that were old. The memory must live until both have
  // ended.
  void Ended(absl::Status status) {
    {
      const std::lock_guard lock(mutex_);
      if (status_.ok()) status_ = std::move(status);
      if (--left_ > 0) return;
    }
    call_.ended(std::move(status_));
  }

  const EnterCore enter_;
  const AllocateLater allocate_;
  const absl::Status gone_;
  ReadCall call_;
  CacheBound bound_;
  Clock reader_ = 0;
  std::shared_ptr<const Routes> routes_;
  std::vector<uint64_t> keys_;    // of the rows that were old, and
  std::vector<uint32_t> places_;  // their places in the call, ascending
  std::mutex mutex_;              // guards what follows
  int left_ = 0;
  absl::Status status_;
};

}  // namespace

std::shared_ptr<PullSink> MakeReceiver(std::shared_ptr<const Batch> batch, float* out,
                                       absl::AnyInvocable<void(absl::Status)> ended) {
  return std::make_shared<Receiver>(std::move(batch), out, std::move(ended));
}

void ReadThroughCache(EnterCore enter, AllocateLater allocate, const absl::Status& gone, ReadCall call) {
  Looked looked;
  if (!LookUpAll(enter, call, &looked)) return call.ended(gone);
  if (!looked.status.ok()) return call.ended(looked.status);
  if (!looked.refreshes.empty()) {
    return std::make_shared<RefreshingRead>(std::move(enter), std::move(allocate), gone, std::move(call))
        ->Start(looked);
  }
  // Another read has just refreshed them: not worth the wait.
  looked.missing.insert(looked.missing.end(), looked.old.begin(), looked.old.end());
  if (!looked.all_missing && looked.missing.empty()) return call.ended(absl::OkStatus());
  std::shared_ptr<const Batch> batch = GroupMissing(call, looked, allocate);
  const std::shared_ptr<PullSink> receiver = MakeReceiver(batch, call.out, std::move(call.ended));
  const bool entered = enter([&](ClientCore& core) {
    core.Pull({.table = call.table,
               .batch = std::move(batch),
               .min_clock = looked.bound.min_clock,
               .priority = call.priority,
               .timeout = call.timeout,
               .sink = receiver},
              call.min_clock);
  });
  if (!entered) receiver->Done(gone);
}

}  // namespace paceline::sdk
