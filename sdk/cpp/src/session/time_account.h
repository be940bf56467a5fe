#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "absl/time/time.h"
#include "libs/base/ids.h"
#include "paceline/stats.h"
#include "paceline/v1/worker_time.pb.h"
#include "sdk/cpp/src/session/table_info.h"

namespace paceline::sdk {

// What a wait waits for. docs/explain.md says what each means.
enum class WaitCause {
  kStaleness,
  kNetwork,
  kQueue,
  kApply,
  kReplication,
  kBackPressure,
  kRoute,
  kWork,
  kCoordinator,
  kValueBound,
};
inline constexpr size_t kWaitCauses = 10;

// Times by cause.
class CauseTimes {
 public:
  absl::Duration& operator[](WaitCause cause) { return times_[static_cast<size_t>(cause)]; }
  absl::Duration operator[](WaitCause cause) const { return times_[static_cast<size_t>(cause)]; }
  absl::Duration Total() const;
  void Add(const CauseTimes& other);
  // `duration` in these proportions, so that the parts add up to it; all of it is network's if there are
  // none.
  CauseTimes Share(absl::Duration duration) const;

 private:
  std::array<absl::Duration, kWaitCauses> times_ = {};
};

// What one operation waited for between its start and its end, and on whom.
struct Waited {
  CauseTimes causes;
  std::optional<uint32_t> for_rank;  // of the worker, for staleness
  std::optional<ShardId> shard;      // that it waited for last
  std::shared_ptr<const TableInfo> table;
};

// Takes the causes of an operation one by one from the time that it took: together they cannot take more.
class WaitedBuilder {
 public:
  explicit WaitedBuilder(absl::Duration whole) : rest_(whole) {}
  // The part of `wanted` that is left; returned in seconds too.
  double Take(WaitCause cause, absl::Duration wanted);
  double TakeRest(WaitCause cause) { return Take(cause, rest_); }
  Waited waited;

 private:
  absl::Duration rest_;
};

// Where the time of a client's threads goes. A thread counts from Begin, or from its first wait, to the end
// of its last one: in between it waits or it computes. So the times of each thread, and their sums, add up to
// what passed. Time is passed in. Single owner.
class TimeAccount {
 public:
  static constexpr size_t kThreadsMax = 256;  // of which the end is known; the sums keep the others' times
  static constexpr size_t kNamedMax = 64;     // workers, shards and tables that are told apart, of each kind
  static constexpr int kReportedMax = 8;      // … and reported

  // A thread waited for `blocked`, once or several times, between `from` and `to`. All of it is for what
  // ended it.
  struct Stay {
    absl::Time from;
    absl::Time to;
    absl::Duration blocked;
  };

  // The thread computes from now on.
  void Begin(uint64_t thread, absl::Time now);
  void Blocked(uint64_t thread, const Stay& stay, const Waited& waited);
  // An operation has ended, whether a thread waited for it or not.
  void Ended(const Waited& waited) { operations_.Add(waited.causes); }

  TimeSplit split() const;
  v1::WorkerTime Report() const;

 private:
  struct OfTable {
    std::shared_ptr<const TableInfo> table;
    absl::Duration staleness;
  };

  absl::Time& EndOf(uint64_t thread, absl::Time if_new);
  CauseTimes Overlapped() const;

  std::map<uint64_t, absl::Time> threads_;  // until when each is accounted for
  uint32_t threads_seen_ = 0;
  absl::Duration compute_;
  CauseTimes blocked_;
  CauseTimes operations_;
  std::map<uint32_t, absl::Duration> for_rank_;
  std::map<ShardId, CauseTimes> at_shard_;
  std::map<TableId, OfTable> of_table_;
};

// The account of a client, for all of its threads.
class TimeLedger {
 public:
  virtual ~TimeLedger() = default;
  virtual void Begin(uint64_t thread, absl::Time now) = 0;
  virtual void Blocked(uint64_t thread, const TimeAccount::Stay& stay, const Waited& waited) = 0;
  virtual void Ended(const Waited& waited) = 0;
  virtual TimeSplit split() const = 0;
  virtual v1::WorkerTime Report() const = 0;
};
// A TimeAccount under a lock of its own.
std::shared_ptr<TimeLedger> NewTimeLedger();

// The causes of an operation that has ended, and the account of its client.
struct Causes {
  Waited waited;
  std::shared_ptr<TimeLedger> ledger;
};

// During its life this thread makes the end of an operation known: all that ends by that, however many
// futures lie between, has its causes. Null: nothing is said.
class Ending {
 public:
  explicit Ending(std::shared_ptr<const Causes> causes);
  ~Ending();
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;

 private:
  std::shared_ptr<const Causes> before_;
};

}  // namespace paceline::sdk
