#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "paceline/v1/coordinator.pb.h"
#include "services/coordinator/metadata/facts/context.h"

namespace paceline::coordinator {

// Detects a store that went back in time: somebody replaced it by an older copy of itself. Such a store would
// issue numbers again that sessions, tables and starts have had, and the rows of one table could pass for
// another's. Shards report the numbers that they know. If the store knows less it is behind, and its
// coordinator serves no request from then on.
class StoreAge {
 public:
  explicit StoreAge(Context& context) : context_(context) {}

  // OK, or kUnavailable: the store is behind what `who` knows, or could not be asked whether another
  // coordinator leads by now, which would explain the difference.
  absl::Status Check(const v1::Known& known, absl::string_view who);
  // Reports that `what` shows the store to be behind; returns as Check.
  absl::Status Found(const std::string& what);
  // OK, or, once the store was found to be behind, the error that all callers get.
  const absl::Status& behind() const { return behind_; }

 private:
  Context& context_;
  absl::Status behind_;
};

}  // namespace paceline::coordinator
