#pragma once

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace paceline::wire {

// Checks every text of a message from outside, also of messages within it: names as CheckName has it,
// addresses as CheckAddress, all others as CheckText. Empty is right here: who needs a text says so.
// kInvalidArgument naming the field, as "tables.name". New fields are checked as what they are called.
absl::Status CheckTexts(const google::protobuf::Message& message);

}  // namespace paceline::wire
