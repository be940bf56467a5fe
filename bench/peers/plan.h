#pragma once

#include <filesystem>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/peers/system.h"
#include "bench/workloads.h"

namespace paceline::bench::peers {

// Kinds of work on the same rows. Every system is started anew for it.
struct Stage {
  Data data;
  std::vector<Work> works;
  bool with_additions = false;  // Redis once more, with INCRBYFLOAT: for rows of one value
};

struct Plan {
  std::vector<Stage> stages;
  int rounds = 0;
  bool near = false;    // ours also over shared memory
  absl::Duration turn;  // of one kind of request of one system in one round
};

// Dense tensors of 4 and 64 MB; one row; batches of 1,000 and 10,000 rows of 1, 16 and 64 values; one and
// eight requests outstanding. Less of it if the setting says so.
Plan MakePlan(const Setting& setting);

// A tensor of so many megabytes, and rows of so many values.
Data Dense(uint64_t megabytes);
Data Rows(uint64_t rows, uint32_t dim);
// Batches of `batch` rows: keys of DrawBatches, as many as fit a cache, and 20 at least; none where dense.
Work MakeWork(const Data& data, size_t batch, size_t outstanding, uint64_t draw = 0);

// Ascending distinct keys of `rows` rows, uniformly drawn: `batches` of `batch` each, one after the other.
// The same for the same arguments, others for another `draw`. `batch` is at most `rows`.
std::vector<uint64_t> DrawBatches(uint64_t rows, size_t batch, size_t batches, uint64_t draw = 0);

// How often each of `rows` rows was pushed to by requests 0 … pushes − 1 of `work`.
void CountPushes(const Work& work, uint64_t pushes, std::vector<uint32_t>& of_rows);

}  // namespace paceline::bench::peers
