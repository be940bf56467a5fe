#pragma once

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace paceline::wire {

// Checks every text of a message from outside, nested messages included: names by CheckName, addresses by
// CheckAddress, all others by CheckText. An empty text passes: the code that needs one refuses it.
// kInvalidArgument names the field, as "tables.name". The check of a field follows from its name, new fields
// included.
absl::Status CheckTexts(const google::protobuf::Message& message);

}  // namespace paceline::wire
