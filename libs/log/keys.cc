#include "libs/log/keys.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"

namespace paceline::log {
namespace {

absl::Status Misplaced(uint64_t key, SegmentId is, SegmentId named) {
  return absl::InvalidArgumentError(absl::StrCat("keys: key ", key, " lies in segment ", is.v,
                                                 ", its part names segment ", named.v,
                                                 "; place keys by the rules of docs/wire.md"));
}

}  // namespace

absl::StatusOr<uint64_t> CountRows(KeyForm form, absl::string_view keys) {
  if (form == KeyForm::kKeys) return keys.size() / kKeyBytes;
  constexpr uint64_t kRowsMax = uint64_t{1} << 32;
  uint64_t rows = 0;
  bool fits = true;
  ForEachRange(keys, [&](uint64_t, uint64_t count) {
    fits = fits && count <= kRowsMax;
    rows += fits ? count : 0;
    fits = fits && rows <= kRowsMax;
  });
  if (!fits) return absl::OutOfRangeError("keys: ranges of more than 2^32 rows in one part; split them");
  return rows;
}

void ForEachRange(absl::string_view keys, absl::FunctionRef<void(uint64_t, uint64_t)> visit) {
  const table::KeyView words = Keys(keys);
  for (size_t i = 0; i + 1 < words.size(); i += 2) visit(words[i], words[i + 1]);
}

absl::Status CheckPlaced(const ring::Placement& placement, SegmentId segment, KeyForm form,
                         absl::string_view keys) {
  if (form == KeyForm::kKeys) {
    const table::KeyView view = Keys(keys);
    if (placement.AllIn(segment, view.data(), view.size())) return absl::OkStatus();
    for (size_t i = 0; i < view.size(); ++i) {
      if (const SegmentId is = placement.Of(view[i]); is != segment) return Misplaced(view[i], is, segment);
    }
    return absl::OkStatus();
  }
  if (!placement.ranged()) {
    return absl::InvalidArgumentError("key_form: ranges on a sparse table; expected keys");
  }
  absl::Status status;
  ForEachRange(keys, [&](uint64_t first, uint64_t count) {
    if (!status.ok()) return;
    absl::StatusOr<std::vector<ring::Piece>> pieces = placement.ForRange(first, count);
    if (!pieces.ok()) {
      status = pieces.status();
      return;
    }
    for (const ring::Piece& piece : *pieces) {
      if (piece.segment != segment && status.ok()) status = Misplaced(piece.first, piece.segment, segment);
    }
  });
  return status;
}

}  // namespace paceline::log
