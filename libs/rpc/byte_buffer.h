#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "grpcpp/support/byte_buffer.h"

// Converts frames between gRPC's slices and Cords. Both are lists of refcounted pieces of memory, so a big
// piece changes hands without a copy. Small pieces are copied: sharing them costs more, and a small piece
// kept alive would pin the whole receive buffer it lies in.
namespace paceline::rpc {

// Pieces smaller than this many bytes are copied.
inline constexpr size_t kWorthSharingBytes = 2048;

// The bytes of `buffer`, which may be destroyed afterwards. kInternal: gRPC could not decompress it.
absl::StatusOr<absl::Cord> ToCord(const grpc::ByteBuffer& buffer);

// The bytes of `cord`. gRPC may release shared memory on any thread.
grpc::ByteBuffer ToByteBuffer(const absl::Cord& cord);

}  // namespace paceline::rpc
