#include "libs/rpc/byte_buffer.h"

#include <atomic>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/support/slice.h"
#include "libs/base/tsan.h"

namespace paceline::rpc {
namespace {

// Keeps a Cord's memory until the last slice that borrows from it is gone.
class SharedCord {
 public:
  explicit SharedCord(const absl::Cord& cord) : cord_(cord) {}

  const absl::Cord& cord() const { return cord_; }

  grpc::Slice Share(absl::string_view piece) {
    references_.fetch_add(1, std::memory_order_relaxed);
    return grpc::Slice(const_cast<char*>(piece.data()), piece.size(), &SharedCord::Release, this);
  }

  static void Release(void* self) {
    auto* shared = static_cast<SharedCord*>(self);
    OrderAfter(shared);  // gRPC has handed the slice from thread to thread
    if (shared->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete shared;
  }

 private:
  const absl::Cord cord_;
  std::atomic<size_t> references_{1};  // the maker's own
};

}  // namespace

absl::StatusOr<absl::Cord> ToCord(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (grpc::Status status = buffer.Dump(&slices); !status.ok()) {
    return absl::InternalError(absl::StrCat("frame: gRPC cannot read it: ", status.error_message()));
  }
  absl::Cord cord;
  for (grpc::Slice& slice : slices) {
    const absl::string_view piece(reinterpret_cast<const char*>(slice.begin()), slice.size());
    if (piece.size() < kWorthSharingBytes) {
      cord.Append(piece);
    } else {
      cord.Append(absl::MakeCordFromExternal(piece, [slice = std::move(slice)](absl::string_view) {}));
    }
  }
  return cord;
}

grpc::ByteBuffer ToByteBuffer(const absl::Cord& cord) {
  // Pieces are views into the copy that SharedCord holds: a small Cord stores its bytes within itself.
  auto* shared = new SharedCord(cord);
  std::vector<grpc::Slice> slices;
  std::string small;  // consecutive small pieces, copied into one: each slice costs the transport more
  const auto flush = [&] {
    if (!small.empty()) slices.emplace_back(small.data(), small.size());
    small.clear();
  };
  for (absl::string_view piece : shared->cord().Chunks()) {
    if (piece.size() < kWorthSharingBytes) {
      small.append(piece.data(), piece.size());
    } else {
      flush();
      slices.push_back(shared->Share(piece));
    }
  }
  flush();
  OrderBefore(shared);
  SharedCord::Release(shared);
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace paceline::rpc
