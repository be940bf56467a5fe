#include "services/coordinator/metadata/leadership/store_age.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"

namespace paceline::coordinator {
namespace {

// The things of `known` that the facts lack; empty: none.
std::string WhatIsMissing(const Facts& facts, const v1::Known& known) {
  const auto missing = [](absl::string_view what, uint64_t theirs, uint64_t ours) {
    return theirs > ours ? absl::StrCat(what, " ", theirs, "; the store knows ", ours) : std::string();
  };
  const CountersRecord& counters = facts.counters();
  for (std::string found :
       {missing("term", known.term(), facts.term()),
        missing("map version", known.map_version(), facts.map_version()),
        missing("session", known.session(), counters.session()), missing("job", known.job(), counters.job()),
        missing("table", known.table(), counters.table()), missing("cut", known.cut(), counters.cut()),
        missing("change", known.change(), counters.change()),
        missing("catalogue version", known.catalogue_version(), counters.catalogue_version()),
        missing("start of a shard", known.incarnation(), counters.incarnation())}) {
    if (!found.empty()) return found;
  }
  const int segments = facts.map() == nullptr ? 0 : facts.map()->segments_size();
  for (int s = 0; s < known.epochs_size(); ++s) {
    const uint64_t ours = s < segments ? facts.map()->segments(s).epoch() : 0;
    std::string found = missing(absl::StrCat("segment ", s, " in epoch"), known.epochs(s), ours);
    if (!found.empty()) return found;
  }
  return "";
}

}  // namespace

absl::Status StoreAge::Check(const v1::Known& known, absl::string_view who) {
  ABSL_RETURN_IF_ERROR(behind_);
  const std::string missing = WhatIsMissing(context_.facts, known);
  return missing.empty() ? absl::OkStatus() : Found(absl::StrCat(who, " knows of ", missing));
}

absl::Status StoreAge::Found(const std::string& what) {
  ABSL_RETURN_IF_ERROR(behind_);
  ABSL_RETURN_IF_ERROR(context_.facts.ConfirmTerm());
  behind_ = absl::UnavailableError(absl::StrCat(
      "the coordinator's store is older than its cluster (", what,
      "): it would give out numbers again, so nothing is served. End the coordinator, bring the newest store "
      "back (--data-dir, or etcd's data) and start it again; if that is lost, start a new cluster with empty "
      "folders and restore the jobs from snapshots (docs/operations.md)"));
  context_.probe.StoreBehind(behind_);
  return behind_;
}

}  // namespace paceline::coordinator
