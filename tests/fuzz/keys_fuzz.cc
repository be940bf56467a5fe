// Keys and ranges of a frame: cut into parts, counted and placed; what passes the checks can be read from a
// table. An input is the form of the keys, the number of parts, their entries, and the keys.
#include "libs/log/keys.h"
#include "libs/log/segment.h"
#include "libs/table/admission.h"
#include "services/shard/streams/take_apart.h"
#include "tests/fuzz/fuzz.h"

namespace paceline {
namespace {

constexpr int kRingBits = 2;
constexpr uint64_t kRowsMax = 1 << 16;  // a shard bounds the rows of a reply before it looks at the ranges

table::Schema SchemaOf(bool ranged, uint64_t rows) {
  table::Schema schema;
  schema.kind = ranged ? table::Kind::kRanged : table::Kind::kSparse;
  schema.rows = ranged ? rows : 0;
  return schema;
}

// As a primary reads one part.
void Read(const table::Schema& schema, const ring::Placement& placement, const shard::Slice& slice,
          log::KeyForm form) {
  if (!log::CheckPlaced(placement, slice.segment, form, slice.keys).ok()) return;
  table::TableStore store(TableId(1), schema, kRingBits);
  std::vector<float> out(slice.rows);
  if (form == log::KeyForm::kKeys) {
    if (table::CheckKeys(schema, log::Keys(slice.keys)).ok()) store.Read(log::Keys(slice.keys), out.data());
    return;
  }
  float* to = out.data();
  log::ForEachRange(slice.keys, [&](uint64_t first, uint64_t count) {
    const std::vector<ring::Piece> pieces = placement.ForRange(first, count).value();
    for (const ring::Piece& piece : pieces) {
      store.ReadRange(piece.first, piece.count, to);
      to += piece.count;
    }
  });
  FUZZ_CHECK(to == out.data() + out.size(), "ranges have as many rows as were counted");
}

}  // namespace

std::vector<fuzz::Seed> fuzz::Seeds() {
  const auto input = [](char form, const std::vector<wire::PartEntry>& parts,
                        const std::vector<uint64_t>& words) {
    std::string out{form, static_cast<char>(parts.size())};
    for (const wire::PartEntry& part : parts) wire::Append(part, out);
    out.append(reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint64_t));
    return out;
  };
  const auto sparse = ring::Placement::Sparse(TableId(1), kRingBits).value();
  const auto ranged = ring::Placement::Ranged(TableId(1), kRingBits, 1000, 1).value();
  std::vector<uint64_t> keys;
  for (uint64_t key = 0; keys.size() < 3; ++key) {
    if (sparse.Of(key) == SegmentId(1)) keys.push_back(key);
  }
  const wire::PartEntry part{SegmentId(1), 3, Epoch(1), 1};
  return {{"keys", input(0, {part}, keys)},
          {"two_parts", input(0, {part, {ranged.Of(0), 1, Epoch(1), 1}}, {keys[0], keys[1], keys[2], 0})},
          {"ranges", input(1, {{ranged.Of(0), 2, Epoch(1), 1}}, {0, 10, 20, 5})},
          {"range_of_two_blocks", input(1, {{ranged.Of(0), 1, Epoch(1), 1}}, {200, 300})}};
}

}  // namespace paceline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  if (size < 2) return 0;
  const auto form = shard::FormOf(static_cast<v1::KeyForm>(data[0]));
  if (!form.ok()) return 0;
  const absl::string_view rest(reinterpret_cast<const char*>(data) + 2, size - 2);
  const absl::string_view table = rest.substr(0, data[1] * wire::kPartEntryBytes);
  const auto entries = wire::ParseParts(table);
  if (!entries.ok()) return 0;
  const auto slices = shard::SliceKeys(*entries, *form, rest.substr(table.size()), 1u << kRingBits);
  if (!slices.ok()) return 0;
  for (const bool ranged : {false, true}) {
    for (const uint64_t rows : {uint64_t{1000}, ~uint64_t{0}}) {
      const table::Schema schema = SchemaOf(ranged, rows);
      const auto placement = ranged ? ring::Placement::Ranged(TableId(1), kRingBits, rows, 1).value()
                                    : ring::Placement::Sparse(TableId(1), kRingBits).value();
      for (const shard::Slice& slice : *slices) {
        if (slice.rows <= kRowsMax) Read(schema, placement, slice, *form);
      }
    }
  }
  return 0;
}
