#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/base/ids.h"
#include "libs/base/retry.h"
#include "libs/filter/filter.h"
#include "libs/wire/frame.h"
#include "libs/world/clock.h"
#include "libs/world/port.h"
#include "libs/world/random.h"
#include "paceline/stats.h"
#include "sdk/cpp/src/cache/cache.h"
#include "sdk/cpp/src/session/gate.h"
#include "sdk/cpp/src/session/history.h"
#include "sdk/cpp/src/session/routes.h"
#include "sdk/cpp/src/session/table_changes.h"
#include "sdk/cpp/src/session/table_info.h"
#include "sdk/cpp/src/session/time_account.h"
#include "sdk/cpp/src/session/timers.h"

namespace paceline::sdk {

// ClientOptions::retry when the user does not set it.
inline constexpr BackoffPolicy kDefaultBackoff{.initial = absl::Milliseconds(10), .max = absl::Seconds(1)};

class PullListener;
class PushFilters;
class ValueBounds;

// State that all pieces of one core share. Owned by ClientCore; used only inside the gate.
struct Context {
  Context(const world::Clock& clock_in, world::Random& random_in, world::Dialer& dialer_in,
          std::shared_ptr<Gate> gate_in, uint64_t cache_bytes_max, uint64_t cache_trial_rows,
          size_t slice_bytes_in)
      : clock(clock_in),
        random(random_in),
        dialer(dialer_in),
        gate(std::move(gate_in)),
        slice_bytes(slice_bytes_in),
        cache(cache_bytes_max, cache_trial_rows, &clock_in) {}

  // The world.
  const world::Clock& clock;
  world::Random& random;
  world::Dialer& dialer;
  const std::shared_ptr<Gate> gate;

  // The most bytes of one frame of parts, and of the answer to one pull frame: what is more urgent waits for
  // so many at most. A part has half of it, so that at least two fit.
  const size_t slice_bytes;
  // Frames share so many bytes of values that lie side by side, and copy fewer.
  size_t shares_from = wire::kWorthSharing;
  BackoffPolicy backoff = kDefaultBackoff;  // for all retries

  Timers timers;
  Deferred deferred;

  // This client's identity; known once the session is open.
  std::string client_name;
  std::string token;  // the session's secret, once it is open
  std::string job_name;
  JobId job;
  SessionId session;
  std::string data_lost;  // acknowledged updates that the job's rows lacked when the session was opened
  uint64_t cluster = 0;   // the cluster whose coordinator opened the session; 0: it did not say

  // The worker's clock.
  bool worker = false;    // has joined the job's clocks
  bool finished = false;  // and has left them again
  Clock worker_clock = 0;
  std::optional<double> loss;  // as the user reported it last
  Clock start_clock = 0;
  uint32_t rank = 0;
  // Clocks of reads under way that must hold nothing later: no tick past them may be sent.
  std::multiset<Clock> exact_reads;

  // The newest values from the coordinator; both only ever grow.
  std::shared_ptr<const Routes> routes;
  CatalogueVersion catalogue_version;

  RowCache cache;
  TableChanges changes{cache};  // of rates and bounds
  History history;              // events for the history file; recorded only if there is a sink
  std::shared_ptr<const TableInfo> any_table;  // the one that was opened last; null: none yet
  filter::LinkFilters link_filters;            // of all tables together
  // By table: to what the rows are rounded that the cache keeps. f32 if its readers here want different ones.
  std::map<TableId, filter::Precision> kept_precision;
  PullListener* puller = nullptr;        // for parts that want their rows back
  ValueBounds* bounds = nullptr;         // of tables under a value bound
  const PushFilters* filters = nullptr;  // of what is pushed

  // False: rows that are rounded for this reader of the table are not for the cache.
  bool MayKeepRounded(const TableInfo& table) const {
    const auto kept = kept_precision.find(table.id);
    return kept == kept_precision.end() || kept->second == table.link_filters.pull.precision();
  }

  Stats stats;
  // Where the time of this client's threads goes; shared with futures, which may outlive the client.
  const std::shared_ptr<TimeLedger> times = NewTimeLedger();
  absl::Status failure;  // of the whole client: once not OK, it stays so

  // Requests that the coordinator has not answered yet, by their caller.
  struct Asked {
    std::string what;  // and of whom
    absl::Time since;
    std::string last_answer;  // why the request is repeated; empty: there was no answer
  };
  std::map<const void*, Asked> asked;
  // Reads are parked at most this long, and then asked for again: the answer says for whom they wait.
  absl::Duration park_max = absl::InfiniteDuration();
  // Reports text to the user, outside the gate; empty: no listener.
  std::function<void(std::string text)> notice;

  // Ends everything with `why`, which is not OK. The first reason counts. The pieces of the core learn of it
  // once the current work is done.
  std::function<void(absl::Status why)> fail;
  // One of exact_reads has ended.
  std::function<void()> exact_read_ended;
  // Pushes what filters hold back.
  std::function<void()> send_held_back;
  // A shard has named a version of the map that is newer than the client's.
  std::function<void(MapVersion version)> want_map;

  absl::Time Now() const { return clock.Now(); }
};

}  // namespace paceline::sdk
