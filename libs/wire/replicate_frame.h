#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "libs/wire/frame.h"
#include "paceline/v1/replication.pb.h"

namespace paceline::wire {

// A frame of a Replicate stream (frame.h). Its records bypass Protobuf.
struct ReplicateFrame {
  v1::ReplicateRequest head;  // everything but the records: its body field stays empty
  absl::Cord body;

  // Appends one segment's message with its records. Sets its body_bytes.
  void Add(v1::ReplicateRequest::Segment segment, const absl::Cord& records);
  // The records of each of head.segments(). They share memory with `body`. REQUIRES: the frame was made by
  // Add or DecodeReplicate.
  std::vector<absl::Cord> Bodies() const;

  size_t BlobBytes() const { return body.size(); }
};

// Copies only bodies of up to a few hundred bytes.
absl::Cord Encode(const ReplicateFrame& frame);

// INVALID_ARGUMENT if `bytes` is not a well-formed ReplicateRequest, or the body_bytes of its segments do not
// add up to its body. Shares memory with `bytes`.
absl::StatusOr<ReplicateFrame> DecodeReplicate(const absl::Cord& bytes);

}  // namespace paceline::wire
