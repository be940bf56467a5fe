#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "paceline/client.h"
#include "paceline/future.h"
#include "paceline/table.h"
#include "paceline/table_schema.h"

namespace paceline {

// The size of a count-min sketch.
struct CountMinOptions {
  uint32_t width = 4096;  // cells in each row of the sketch, at least 1
  uint32_t depth = 5;     // rows, 1 to 32

  // The smallest sketch whose estimates exceed the truth by more than epsilon times all counts with a
  // probability of at most delta. Both are above 0 and below 1.
  static CountMinOptions For(double epsilon, double delta);
};

// Counts how often keys occur in a stream of any length, in a fixed number of cells (Cormode, Muthukrishnan:
// An Improved Data Stream Summary: The Count-Min Sketch and its Applications. J. Algorithms 55, 2005).
//
//   auto views = paceline::CountMin::Open(*client, "views", {.width = 65536, .depth = 4});
//   if (!views.ok()) return views.status();
//   views->AddAsync(pages);                                  // 1 for each
//   absl::StatusOr<std::vector<double>> estimates = views->Estimate({page});
//
// **What an estimate says.** Let N be the sum of all counts. The estimate of a key is its count or more; it
// exceeds the count by more than N · e / width with a probability of at most e^−depth over the choice of
// keys. The hash functions are fixed, and public: who chooses keys to collide makes estimates of them too
// large.
//
// **Numbers.** A cell counts exactly up to 2^24, and beyond that to about one part in ten million, however
// small what is added: an estimate may then fall short by as much.
//
// **Where it lives.** In a ranged table of the client's job of width · depth rows of one value, with a rule
// that adds: key k has in row r of the sketch the cell r · width + ((Mix64(r + 1, k) >> 32) · width >> 32),
// with the Mix64 that places keys (docs/wire.md §2). So everything that holds for tables holds for sketches:
// each update counts exactly once, whatever fails; replicas, snapshots, clocks and bounds of staleness are
// theirs.
//
// **Threads.** As a Table: copy it freely, use it from any number of threads.
class CountMin {
 public:
  // Opens the sketch `name`; the first caller makes it. INVALID_ARGUMENT: a width or depth that is not
  // allowed; or Bsp, under which the counts of a clock would be summed as f32. ALREADY_EXISTS: there is a
  // table of that name that is no sketch of this size.
  static absl::StatusOr<CountMin> Open(Client& client, absl::string_view name,
                                       const CountMinOptions& options = {},
                                       const Consistency& consistency = Ssp{});

  // Adds counts[i] to keys[i], or 1 to each without counts. Keys may repeat. A push of depth updates for each
  // key: it blocks, fails and takes its time as one. INVALID_ARGUMENT: as many counts as keys are expected,
  // or none.
  absl::Status Add(absl::Span<const uint64_t> keys, absl::Span<const uint64_t> counts = {},
                   const PushOptions& options = {});
  Future<void> AddAsync(absl::Span<const uint64_t> keys, absl::Span<const uint64_t> counts = {},
                        const PushOptions& options = {});

  // The estimate of each key: a pull of depth cells for each, at the bound of the table's consistency.
  absl::StatusOr<std::vector<double>> Estimate(absl::Span<const uint64_t> keys,
                                               const PullOptions& options = {});

  // N, the sum of all counts: a reduction (Table::Reduce), which goes through one row of the sketch.
  absl::StatusOr<double> Total();

  uint32_t width() const { return options_.width; }
  uint32_t depth() const { return options_.depth; }
  const Table& table() const { return table_; }

  // The cells of `key`, one in each row of the sketch.
  static std::vector<uint64_t> CellsOf(uint64_t key, const CountMinOptions& options);

 private:
  CountMin(Table table, const CountMinOptions& options) : table_(std::move(table)), options_(options) {}
  std::vector<uint64_t> CellsOf(absl::Span<const uint64_t> keys) const;

  Table table_;
  CountMinOptions options_;
};

}  // namespace paceline
