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
#include "libs/ring/placement.h"
#include "libs/table/schema.h"
#include "libs/world/clock.h"
#include "libs/world/port.h"
#include "libs/world/random.h"
#include "paceline/stats.h"
#include "paceline/table_schema.h"
#include "sdk/cpp/src/cache.h"
#include "sdk/cpp/src/gate.h"
#include "sdk/cpp/src/history.h"
#include "sdk/cpp/src/routes.h"
#include "sdk/cpp/src/timers.h"

namespace paceline::sdk {

// ClientOptions::retry as it is when nobody sets it.
inline constexpr BackoffPolicy kDefaultBackoff{.initial = absl::Milliseconds(10), .max = absl::Seconds(1)};

// A table as its clients know it. Immutable; shared by all who use it.
struct TableInfo {
  TableId id;
  std::string name;
  table::Schema schema;
  ring::Placement placement;
  Consistency consistency;

  // "table 'weights'", for messages.
  std::string Name() const { return "table '" + name + "'"; }
  Line line() const { return schema.aggregated ? Line::kAggregated : Line::kArrival; }
};

class Puller;

// What all pieces of one core share. Owned by ClientCore; touched only inside the gate.
struct Context {
  Context(const world::Clock& clock_in, world::Random& random_in, world::Dialer& dialer_in,
          std::shared_ptr<Gate> gate_in, uint64_t cache_bytes_max, uint64_t cache_trial_rows)
      : clock(clock_in),
        random(random_in),
        dialer(dialer_in),
        gate(std::move(gate_in)),
        cache(cache_bytes_max, cache_trial_rows) {}

  // The world.
  const world::Clock& clock;
  world::Random& random;
  world::Dialer& dialer;
  const std::shared_ptr<Gate> gate;

  BackoffPolicy backoff = kDefaultBackoff;  // of whatever is tried again

  Timers timers;
  Deferred deferred;

  // Who this is; known once the session is open.
  std::string client_name;
  std::string token;  // the session's secret, once it is open
  std::string job_name;
  JobId job;
  SessionId session;
  std::string data_lost;  // what the job's rows lacked when the session was opened
  uint64_t cluster = 0;   // whose coordinator opened it; 0: it did not say

  // The worker's clock.
  bool worker = false;    // has joined the job's clocks
  bool finished = false;  // and left them again
  Clock worker_clock = 0;
  std::optional<double> loss;  // as the user told it last
  Clock start_clock = 0;
  uint32_t rank = 0;
  // Clocks of reads under way that must hold nothing later: no tick past them may be told.
  std::multiset<Clock> exact_reads;

  // What it was told last; both only ever grow.
  std::shared_ptr<const Routes> routes;
  CatalogueVersion catalogue_version;

  RowCache cache;
  History history;           // for who checks what happened; recorded nowhere unless it is told where
  Puller* puller = nullptr;  // for parts that want their rows back

  Stats stats;
  absl::Status failure;  // of the whole client: not OK for good

  // What the coordinator was asked and has not answered, by who asks.
  struct Asked {
    std::string what;  // and whom
    absl::Time since;
    std::string last_answer;  // why it is asked again; empty: there was none
  };
  std::map<const void*, Asked> asked;
  // Reads are parked so long at most, and then asked for again: that tells whom they wait for.
  absl::Duration park_max = absl::InfiniteDuration();
  // Says something to people, outside the gate; empty: nobody listens.
  std::function<void(std::string text)> notice;

  // Ends everything with `why`, which is not OK. The first reason counts. The pieces of the core are told
  // once what is at hand is done.
  std::function<void(absl::Status why)> fail;
  // One of exact_reads is gone.
  std::function<void()> exact_read_ended;
  // A shard has named a version of the map that is newer than ours.
  std::function<void(MapVersion version)> want_map;

  absl::Time Now() const { return clock.Now(); }
};

}  // namespace paceline::sdk
