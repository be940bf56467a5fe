#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/result.h"

// Measures Paceline: a real cluster on loopback, through the SDK.
namespace paceline::bench {

struct Setting {
  std::string coordinator;  // host:port
  // Sizes that only show that the workload runs; its figures mean nothing.
  bool smallest = false;
  // Fewer rounds, and of `peers` fewer rows and kinds of work: a minute at most, and still medians. Of
  // `consistency` one run of each setting, and fewer settings: eight minutes.
  bool quick = false;
  // lr: the kinds of table it is run on.
  std::vector<std::string> tables = {"sparse", "ranged"};
  double gigabytes = 4;    // restart, snapshots: of rows
  double seconds = 90;     // skew: for so long
  std::string only;        // elastic, consistency: the only part of it that runs; peers: the data; empty: all
  std::string plot;        // consistency: the picture to be drawn of its results; empty: none
  std::string ps_lite;     // peers: the folder of ps-lite's sources; empty: without it
  std::string record;      // the client's history file; empty: the environment's
  std::string socket_dir;  // the cluster's, for shared memory; empty: it has none
  bool near = false;       // the client uses it

  // `full`, unless the run is to be shorter.
  int Rounds(int full) const { return smallest ? 1 : quick ? std::min(full, 3) : full; }
};

// 64 MB of a ranged table pushed and pulled whole, four times in a row; each push is waited for, or ("push
// ahead") is made while the one before is on its way. The limit is a bare gRPC stream with the same frames,
// whose own limit is raw TCP. A bare stream below half of raw TCP was disturbed and makes the run void: all
// is measured anew, and UNAVAILABLE after five times.
absl::StatusOr<std::vector<Result>> Dense(const Setting& setting);

// Batches of 1,000 random rows of 16 values (kSparseDim), of a million; the limit is raw TCP with the same
// bytes, four batches on their way. And beside it our own rows without a network: a bare table in this
// process.
inline constexpr uint32_t kSparseDim = 16;
absl::StatusOr<std::vector<Result>> Sparse(const Setting& setting);
// The same with keys drawn by Zipf's law with exponent 1.1, so that few rows are in every batch, and many
// times.
absl::StatusOr<std::vector<Result>> Zipfian(const Setting& setting);
// The same rows, each batch pushed while another is pulled.
absl::StatusOr<std::vector<Result>> Mixed(const Setting& setting);

// 64 MB of a ranged table, rows of 64 values (kWholeDim), pushed and pulled whole, each waited for; with the
// metrics of Sparse, and no limit beside.
inline constexpr uint32_t kWholeDim = 64;
absl::StatusOr<std::vector<Result>> Whole(const Setting& setting);

// One row, one request outstanding; the limit is a round trip of 4 bytes over TCP.
absl::StatusOr<std::vector<Result>> Latency(const Setting& setting);

// An epoch of logistic regression by one worker under SSP(8): 102,400 synthetic examples of 32 features each,
// of a million, in batches of 256. The limit is the same arithmetic on an array in this process.
absl::StatusOr<std::vector<Result>> LogisticRegression(const Setting& setting);

// Batches of 1,000 random rows of 16 values, of 100,000 that the client has cached, beside a copy of such
// rows and beside fetching them. One row pushed and pulled in one round trip, beside a push and a pull. And a
// worker that pulls, pushes and ticks, with 5 to 95 % of its rows in reach of the cache, beside one without a
// cache.
absl::StatusOr<std::vector<Result>> Cached(const Setting& setting);

// What rows of 16 values take at the shards: 1, 1.5, 2, 3 and 4 million of them, beside the limit that the
// project sets itself, and what the budget counts of it. Of a cluster that nobody else uses.
absl::StatusOr<std::vector<Result>> Memory(const Setting& setting);

// Pulls of 500 random rows of 16 values with their slots, of `gigabytes`, in an open loop at 30 % of what the
// cluster can do, a tenth of the requests being pushes; while snapshots are taken, beside none. The cluster
// must keep snapshots (--snapshot-dir), and have memory for the rows twice.
absl::StatusOr<std::vector<Result>> WithSnapshots(const Setting& setting);

}  // namespace paceline::bench
