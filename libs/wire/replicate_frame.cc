#include "libs/wire/replicate_frame.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"

namespace paceline::wire {

// The codec extracts fields by number: the field that holds keys in data-plane frames is the body here.
static_assert(v1::ReplicateRequest::kBodyFieldNumber == kKeysField);

void ReplicateFrame::Add(v1::ReplicateRequest::Segment segment, const absl::Cord& records) {
  segment.set_body_bytes(records.size());
  *head.add_segments() = std::move(segment);
  body.Append(records);
}

std::vector<absl::Cord> ReplicateFrame::Bodies() const {
  std::vector<absl::Cord> bodies;
  bodies.reserve(head.segments_size());
  absl::Cord::CharIterator at = body.char_begin();
  for (const v1::ReplicateRequest::Segment& segment : head.segments()) {
    bodies.push_back(absl::Cord::AdvanceAndRead(&at, segment.body_bytes()));
  }
  return bodies;
}

absl::Cord Encode(const ReplicateFrame& frame) {
  return JoinFrame(frame.head, frame.body, {});
}

absl::StatusOr<ReplicateFrame> DecodeReplicate(const absl::Cord& bytes) {
  ABSL_ASSIGN_OR_RETURN(Frame<v1::ReplicateRequest> frame, Decode<v1::ReplicateRequest>(bytes));
  uint64_t left = frame.keys.size();
  for (const v1::ReplicateRequest::Segment& segment : frame.head.segments()) {
    if (segment.body_bytes() > left) {
      return absl::InvalidArgumentError(absl::StrCat("body_bytes: ", segment.body_bytes(), " of segment ",
                                                     segment.segment(), "; only ", left, " are left of ",
                                                     frame.keys.size()));
    }
    left -= segment.body_bytes();
  }
  if (left != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("body: ", left, " bytes are of none of the frame's segments"));
  }
  return ReplicateFrame{std::move(frame.head), std::move(frame.keys)};
}

}  // namespace paceline::wire
