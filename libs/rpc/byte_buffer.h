#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "grpcpp/support/byte_buffer.h"

// Frames between gRPC, which has slices, and the rest, which has Cords. Both are lists of refcounted pieces
// of memory, so a big piece changes hands without being copied; small ones are copied, since sharing costs
// more than they do, and since a small piece kept alive would pin the whole receive buffer it lies in.
namespace paceline::rpc {

// Pieces of fewer bytes are copied.
inline constexpr size_t kWorthSharingBytes = 2048;

// The bytes of `buffer`, which may be destroyed afterwards. kInternal: gRPC could not decompress it.
absl::StatusOr<absl::Cord> ToCord(const grpc::ByteBuffer& buffer);

// The bytes of `cord`. What is shared lives until gRPC has let go of it, on whatever thread that is.
grpc::ByteBuffer ToByteBuffer(const absl::Cord& cord);

}  // namespace paceline::rpc
