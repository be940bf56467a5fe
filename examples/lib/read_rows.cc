#include "examples/lib/read_rows.h"

#include <algorithm>
#include <numeric>

#include "paceline/client.h"

namespace paceline::examples {

absl::StatusOr<std::vector<float>> ReadRows(const ClientOptions& reader, const std::string& table,
                                            absl::Span<const uint64_t> keys, uint64_t min_clock) {
  constexpr size_t kFloatsAtOnce = 65536;
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(reader);
  if (!client.ok()) return client.status();
  absl::StatusOr<Table> opened = (*client)->Open(table);
  if (!opened.ok()) return opened.status();
  const size_t dim = opened->dim();
  const size_t at_once = std::max<size_t>(1, kFloatsAtOnce / dim);
  std::vector<float> rows(keys.size() * dim);
  for (size_t first = 0; first < keys.size(); first += at_once) {
    const absl::Span<const uint64_t> piece = keys.subspan(first, at_once);
    const absl::Span<float> out = absl::MakeSpan(rows).subspan(first * dim, piece.size() * dim);
    if (absl::Status s = opened->Pull(piece, out, {.min_clock = min_clock}); !s.ok()) return s;
  }
  return rows;
}

absl::StatusOr<std::vector<float>> ReadFirstRows(const ClientOptions& reader, const std::string& table,
                                                 uint64_t rows, uint64_t min_clock) {
  std::vector<uint64_t> keys(rows);
  std::iota(keys.begin(), keys.end(), uint64_t{0});
  return ReadRows(reader, table, keys, min_clock);
}

}  // namespace paceline::examples
