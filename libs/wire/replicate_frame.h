#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "libs/wire/frame.h"
#include "paceline/v1/replication.pb.h"

namespace paceline::wire {

// A frame of a Replicate stream (frame.h): its records stay out of Protobuf's hands.
struct ReplicateFrame {
  v1::ReplicateRequest head;  // everything but the records: its body field stays empty
  absl::Cord body;

  // Appends what one segment has to say, with its records. Sets body_bytes.
  void Add(v1::ReplicateRequest::Segment segment, const absl::Cord& records);
  // The records of each of head.segments(). Shares memory with `body`. REQUIRES: made by Add or
  // DecodeReplicate.
  std::vector<absl::Cord> Bodies() const;

  size_t BlobBytes() const { return body.size(); }
};

// Does not copy a body of more than a few hundred bytes.
absl::Cord Encode(const ReplicateFrame& frame);

// INVALID_ARGUMENT if `bytes` is not a well-formed ReplicateRequest, or its segments do not share out its
// body exactly. Shares memory with `bytes`.
absl::StatusOr<ReplicateFrame> DecodeReplicate(const absl::Cord& bytes);

}  // namespace paceline::wire
