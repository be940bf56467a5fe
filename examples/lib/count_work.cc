#include "examples/lib/count_work.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"

namespace paceline::examples {
namespace {

constexpr uint64_t kRowsAtOnce = 65536;

}  // namespace

absl::StatusOr<Table> OpenTrained(Client& client) {
  return client.OpenOrCreate(kTrained, Sparse{.dim = 1, .rule = Add{}, .consistency = Ssp{.staleness = 2}});
}

absl::StatusOr<uint64_t> TrainedAgain(Client& client, uint64_t examples, uint64_t passes) {
  absl::StatusOr<Table> counts = OpenTrained(client);
  if (!counts.ok()) return counts.status();
  double again = 0;
  const uint64_t rows = examples * passes;
  for (uint64_t first = 0; first < rows; first += kRowsAtOnce) {
    std::vector<uint64_t> keys(std::min(kRowsAtOnce, rows - first));
    std::iota(keys.begin(), keys.end(), first);
    const absl::StatusOr<std::vector<float>> trained = counts->Pull(keys);
    if (!trained.ok()) return trained.status();
    for (size_t i = 0; i < keys.size(); ++i) {
      if ((*trained)[i] < 1) {
        return absl::DataLossError(absl::StrCat("example ", keys[i] % examples, " of pass ",
                                                keys[i] / examples, " was never trained"));
      }
      again += static_cast<double>((*trained)[i]) - 1;
    }
  }
  return static_cast<uint64_t>(again);
}

absl::StatusOr<uint64_t> TrainedAgain(const ClientOptions& reader, uint64_t examples, uint64_t passes) {
  const absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(reader);
  return client.ok() ? TrainedAgain(**client, examples, passes) : client.status();
}

}  // namespace paceline::examples
