#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "libs/carrier/descriptor.h"
#include "libs/shm/ring.h"

namespace paceline::shm {

using carrier::Descriptor;

// Bytes of each of the two rings: powers of two, at least kRingBytesMin and at most kRingBytesMax.
struct RingSizes {
  uint64_t to_shard = uint64_t{1} << 20;
  uint64_t to_client = uint64_t{1} << 20;
};
inline constexpr uint64_t kRingBytesMin = uint64_t{4} << 10;
inline constexpr uint64_t kRingBytesMax = uint64_t{16} << 20;

// The memory of one connection: two rings, one in each direction. It belongs to no file system, is given from
// process to process by its descriptor, and lives until both have let go of it. It is sealed: nobody can make
// it smaller under a process that reads it.
class Region {
 public:
  // All of what a region of these sizes takes. INVALID_ARGUMENT: no ring has such a size.
  static absl::StatusOr<uint64_t> BytesOf(const RingSizes& sizes);
  // RESOURCE_EXHAUSTED: there is no memory, or no descriptor.
  static absl::StatusOr<std::unique_ptr<Region>> Create(const RingSizes& sizes);
  // Maps the memory that another process has made. INVALID_ARGUMENT: it is not sealed as it must be, is not
  // plain memory, or has another size than `sizes` need. RESOURCE_EXHAUSTED: it has holes that cannot be
  // filled.
  static absl::StatusOr<std::unique_ptr<Region>> Open(Descriptor memory, const RingSizes& sizes);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  int fd() const { return memory_.get(); }
  // The descriptor was given to the peer and is not needed any more.
  void CloseDescriptor() { memory_ = Descriptor(); }
  uint64_t bytes() const { return bytes_; }

  // The ends of the rings. Each may be used by one thread at a time, in one process.
  RingWriter WriterToShard() { return {words(0), ToShard(), sizes_.to_shard}; }
  RingReader ReaderAtShard() { return {words(0), ToShard(), sizes_.to_shard}; }
  RingWriter WriterToClient() { return {words(1), ToClient(), sizes_.to_client}; }
  RingReader ReaderAtClient() { return {words(1), ToClient(), sizes_.to_client}; }

 private:
  Region(Descriptor memory, void* at, uint64_t bytes, const RingSizes& sizes)
      : memory_(std::move(memory)), at_(static_cast<char*>(at)), bytes_(bytes), sizes_(sizes) {}
  static absl::StatusOr<std::unique_ptr<Region>> Map(Descriptor memory, uint64_t bytes,
                                                     const RingSizes& sizes);

  RingWords& words(int ring) { return reinterpret_cast<RingWords*>(at_)[ring]; }
  char* ToShard();
  char* ToClient() { return ToShard() + sizes_.to_shard; }

  Descriptor memory_;
  char* const at_;
  const uint64_t bytes_;
  const RingSizes sizes_;
};

}  // namespace paceline::shm
