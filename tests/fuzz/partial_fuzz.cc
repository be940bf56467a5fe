// Partial results of reductions: what was read is what would be written, and can be added up.
#include "libs/wire/partial.h"
#include "tests/fuzz/fuzz.h"

namespace paceline {
namespace {

const table::ReduceQuery kSum{.op = table::ReduceOp::kSum};
const table::ReduceQuery kTop{.op = table::ReduceOp::kTop, .k = 2};

std::string Written(const table::ReduceQuery& query, const std::vector<float>& row) {
  table::Partial partial;
  partial.AddRow(query, 9, row);
  std::string bytes(wire::PartialBytes(query), '\0');
  wire::WritePartial(query, partial, {.more = true, .cursor = 3}, bytes.data());
  return bytes;
}

void RoundTrip(const table::ReduceQuery& query, absl::string_view bytes) {
  const auto read = wire::ReadPartial(query, bytes);
  if (!read.ok()) {
    FUZZ_CHECK(absl::IsInvalidArgument(read.status()), "refusals are INVALID_ARGUMENT");
    return;
  }
  std::string again(wire::PartialBytes(query), '\0');
  wire::WritePartial(query, read->partial, read->end, again.data());
  const size_t used = 256 + read->partial.top.size() * 16;
  FUZZ_CHECK(bytes.substr(0, used) == absl::string_view(again).substr(0, used),
             "partial results survive a round trip");
  table::Partial twice = read->partial;
  twice.Merge(query, read->partial);
  (void)twice.Value(query.op);
  FUZZ_CHECK(twice.Ordered(query.op).size() <= query.k || !query.top(), "no more entries than asked for");
}

}  // namespace

std::vector<fuzz::Seed> fuzz::Seeds() {
  return {{"sum", Written(kSum, {1.5f, -2, 1e-30f})}, {"top", Written(kTop, {1, 2, 3})}};
}

}  // namespace paceline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  RoundTrip(kSum, bytes);
  RoundTrip(kTop, bytes);
  return 0;
}
