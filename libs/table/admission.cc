#include "libs/table/admission.h"

#include <bit>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/base/wide_vectors.h"

namespace paceline::table {
namespace {

// All exponent bits set: an infinity or NaN.
constexpr uint32_t kExponent = 0x7f800000u;

bool IsFinite(float value) {
  return (std::bit_cast<uint32_t>(value) & kExponent) != kExponent;
}

// Branch-free over blocks, so that the common case, all finite, runs at the speed of memory.
PACELINE_WIDE_VECTORS bool AllFinite(ValueView values) {
  uint32_t bad = 0;
  for (size_t i = 0; i < values.size(); ++i) bad |= IsFinite(values[i]) ? 0u : 1u;
  return bad == 0;
}

PACELINE_WIDE_VECTORS bool AllBelow(KeyView keys, uint64_t rows) {
  uint64_t beyond = 0;
  for (size_t i = 0; i < keys.size(); ++i) beyond |= keys[i] >= rows ? 1u : 0u;
  return beyond == 0;
}

absl::Status CheckWidth(const Schema& schema, uint64_t rows, ValueView values) {
  if (values.size() % schema.dim == 0 && values.size() / schema.dim == rows) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("values: there are ", values.size(), " for ", rows, " keys; expected ", schema.dim,
                   " for each key, as the table's dim is ", schema.dim, ": send whole rows"));
}

absl::Status CheckFinite(const Schema& schema, ValueView values) {
  if (schema.accept_non_finite || AllFinite(values)) return absl::OkStatus();
  size_t i = 0;
  while (IsFinite(values[i])) ++i;
  return absl::InvalidArgumentError(absl::StrCat(
      "values: ", values[i], " in row ", i / schema.dim, ", column ", i % schema.dim,
      "; expected finite numbers: look for a division by zero or an overflow in the worker, or create the "
      "table with accept_non_finite"));
}

absl::Status BeyondEnd(const Schema& schema, uint64_t key) {
  return absl::OutOfRangeError(absl::StrCat("keys: ", key, " is not in the table; expected 0 .. ",
                                            schema.rows - 1, ": the table was created with ", schema.rows,
                                            " rows"));
}

}  // namespace

absl::Status CheckKeys(const Schema& schema, KeyView keys) {
  if (schema.kind == Kind::kSparse || AllBelow(keys, schema.rows)) return absl::OkStatus();
  size_t i = 0;
  while (keys[i] < schema.rows) ++i;
  return BeyondEnd(schema, keys[i]);
}

absl::Status CheckRange(const Schema& schema, uint64_t first, uint64_t count) {
  if (schema.kind != Kind::kRanged) {
    return absl::InvalidArgumentError(
        "keys: a range, but the table is sparse; expected a list of keys: send each key");
  }
  if (first <= schema.rows && count <= schema.rows - first) return absl::OkStatus();
  return BeyondEnd(schema, first >= schema.rows ? first : schema.rows);
}

absl::Status CheckUpdate(const Schema& schema, KeyView keys, ValueView values) {
  ABSL_RETURN_IF_ERROR(CheckKeys(schema, keys));
  return CheckValues(schema, keys.size(), values);
}

absl::Status CheckValues(const Schema& schema, uint64_t rows, ValueView values) {
  ABSL_RETURN_IF_ERROR(CheckWidth(schema, rows, values));
  return CheckFinite(schema, values);
}

absl::Status CheckRangeUpdate(const Schema& schema, uint64_t first, uint64_t count, ValueView values) {
  ABSL_RETURN_IF_ERROR(CheckRange(schema, first, count));
  return CheckValues(schema, count, values);
}

}  // namespace paceline::table
