#pragma once

#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "paceline/v1/coordinator.pb.h"

// What coordinator and clients must agree on about work queues (docs/work.md): which examples an item is, and
// lists of items.
namespace paceline::wire {

using WorkItemsField = google::protobuf::RepeatedPtrField<v1::WorkItems>;

// Examples count from 0 within their pass.
struct WorkRange {
  uint64_t pass = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// kInvalidArgument names the field. The functions below take a spec that it accepts, and items that exist.
absl::Status CheckWorkSpec(const v1::WorkSpec& spec);
uint64_t ItemsOfPass(const v1::WorkSpec& spec);
uint64_t ItemsOf(const v1::WorkSpec& spec);
WorkRange RangeOf(const v1::WorkSpec& spec, uint64_t item);

// An item that a session holds.
struct HeldItem {
  uint64_t mark = 0;  // examples of its pass below this one are trained, and their updates committed
  bool begun = false;
  friend bool operator==(const HeldItem&, const HeldItem&) = default;
};

// Neighbours that are neither begun nor marked make one entry.
WorkItemsField ToItems(const v1::WorkSpec& spec, const std::map<uint64_t, HeldItem>& items);
// OK if the entries' items exist and are no more than `most`, and marks lie within them. kInvalidArgument
// begins with `name`.
absl::Status CheckItems(const v1::WorkSpec& spec, absl::string_view name, const WorkItemsField& field,
                        uint64_t most);
// REQUIRES: CheckItems accepts the field.
std::map<uint64_t, HeldItem> FromItems(const v1::WorkSpec& spec, const WorkItemsField& field);

}  // namespace paceline::wire
