#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "paceline/v1/coordinator.pb.h"
#include "services/coordinator/metadata/context.h"

namespace paceline::coordinator {

// Whether the store went back in time: somebody put an older copy of it in the place of the newest. It would
// give out numbers again that sessions, tables and starts have had, and one's rows would pass for another's.
// Shards tell what they know; a store that knows less is behind, and its coordinator serves nobody from then
// on.
class StoreAge {
 public:
  explicit StoreAge(Context& context) : context_(context) {}

  // OK, or kUnavailable: the store is behind what `who` knows, or cannot be asked whether another coordinator
  // leads by now, which would explain it.
  absl::Status Check(const v1::Known& known, absl::string_view who);
  // `what` shows that it is behind; as Check.
  absl::Status Found(const std::string& what);
  // OK until it was found to be behind; then what everybody is told.
  const absl::Status& behind() const { return behind_; }

 private:
  Context& context_;
  absl::Status behind_;
};

}  // namespace paceline::coordinator
