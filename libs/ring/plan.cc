#include "libs/ring/plan.h"

#include "absl/strings/str_cat.h"

namespace paceline::ring {

std::string ToString(const Move& move) {
  const std::string segment = absl::StrCat("segment ", move.segment.v, " of shard ", move.primary.v);
  switch (move.kind) {
    case Move::Kind::kRecruit:
      return absl::StrCat("recruit shard ", move.to.v, " for ", segment);
    case Move::Kind::kHandOver:
      return absl::StrCat("hand ", segment, " over to shard ", move.to.v);
    case Move::Kind::kDrop:
      return absl::StrCat("drop shard ", move.to.v, " from ", segment);
  }
  return "unknown move";
}

}  // namespace paceline::ring
