#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/peers/system.h"
#include "paceline/client.h"

namespace paceline::bench::peers {

// The kind of table; near: over shared memory.
enum class Kind { kRanged, kSparse, kNearRanged, kNearSparse };
const char* NameOf(Kind kind);
inline bool IsRanged(Kind kind) {
  return kind == Kind::kRanged || kind == Kind::kNearRanged;
}
inline bool IsNear(Kind kind) {
  return kind == Kind::kNearRanged || kind == Kind::kNearSparse;
}

// A client of ours with one table of these rows: rule Add, under ASP, without a cache. For one thread.
class PacelineClient {
 public:
  // `socket_dir`: the cluster's; empty: streams go over TCP.
  static absl::StatusOr<std::unique_ptr<PacelineClient>> Connect(const std::string& coordinator,
                                                                 const std::string& socket_dir,
                                                                 const Data& data, Kind kind);

  // As System's.
  absl::Status Touch();
  absl::StatusOr<Turn> Run(Op op, const Work& work, uint64_t first, absl::Duration duration);
  absl::StatusOr<uint64_t> WrongRows(const std::vector<uint32_t>& pushes);

 private:
  explicit PacelineClient(const Data& data) : data_(data) {}

  // As a program that waits for each request: with the functions that block.
  absl::StatusOr<Turn> OneByOne(Op op, const Work& work, uint64_t first, absl::Duration duration);
  template <typename Visit>
  absl::Status ForEachBatch(const Visit& visit);

  const Data data_;
  std::vector<float> ones_, pulled_;  // of a request
  std::vector<float> ahead_;          // pulled by several; a client that ends still writes to it
  std::unique_ptr<Client> client_;
  std::optional<Table> table_;
};

}  // namespace paceline::bench::peers
