#include "libs/shm/region.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"

namespace paceline::shm {
namespace {

constexpr uint64_t kHeadBytes = 4096;  // the rings' words, in a page of their own
static_assert(2 * sizeof(RingWords) <= kHeadBytes);

// Nobody may resize the memory, nor lift that. To write to it stays allowed: both ends do.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

absl::Status Missing(absl::string_view what) {
  return absl::ResourceExhaustedError(absl::StrCat("shared memory: ", what, ": ", std::strerror(errno)));
}

absl::Status Unfit(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("shared memory: ", what));
}

absl::Status CheckRing(uint64_t bytes) {
  if (std::has_single_bit(bytes) && bytes >= kRingBytesMin && bytes <= kRingBytesMax) return absl::OkStatus();
  return Unfit(absl::StrCat("a ring of ", bytes, " bytes; expected a power of two from ", kRingBytesMin,
                            " to ", kRingBytesMax));
}

// Makes the file so long, and takes all of its memory now. Where the system promises no more memory than it
// has (vm.overcommit_memory=2), a page that cannot be had when it is touched ends the process (SIGBUS).
bool Reserve(int memory, off_t bytes) {
  constexpr int kTries = 20;  // a signal interrupts it
  for (int i = 0; i < kTries; ++i) {
    if (fallocate(memory, 0, 0, bytes) == 0) return true;
    if (errno != EINTR) return false;
  }
  return false;
}

}  // namespace

absl::StatusOr<uint64_t> Region::BytesOf(const RingSizes& sizes) {
  ABSL_RETURN_IF_ERROR(CheckRing(sizes.to_shard));
  ABSL_RETURN_IF_ERROR(CheckRing(sizes.to_client));
  return kHeadBytes + sizes.to_shard + sizes.to_client;
}

absl::StatusOr<std::unique_ptr<Region>> Region::Create(const RingSizes& sizes) {
  ABSL_ASSIGN_OR_RETURN(const uint64_t bytes, BytesOf(sizes));
  // The memory counts as a file, and one beyond its limit ends the process with a signal.
  rlimit most = {};
  if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur < bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("shared memory: ", bytes, " bytes; files may have ",
                                                     most.rlim_cur, " in this process (ulimit -f)"));
  }
  Descriptor memory(memfd_create("paceline", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) return Missing("memfd_create");
  if (!Reserve(memory.get(), static_cast<off_t>(bytes))) return Missing("fallocate");
  if (fcntl(memory.get(), F_ADD_SEALS, kSeals) != 0) return Missing("seals");
  return Map(std::move(memory), bytes, sizes);
}

absl::StatusOr<std::unique_ptr<Region>> Region::Open(Descriptor memory, const RingSizes& sizes) {
  ABSL_ASSIGN_OR_RETURN(const uint64_t bytes, BytesOf(sizes));
  const int seals = fcntl(memory.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return Unfit("it is not sealed against changes of its size");
  if ((seals & F_SEAL_WRITE) != 0) return Unfit("it is sealed against writing");
  // Huge pages would have to be reserved, and could be missing when they are touched.
  struct statfs system = {};
  if (fstatfs(memory.get(), &system) != 0 || system.f_type != TMPFS_MAGIC) {
    return Unfit("it is not plain memory, as memfd_create makes it");
  }
  struct stat file = {};
  if (fstat(memory.get(), &file) != 0 || static_cast<uint64_t>(file.st_size) != bytes) {
    return Unfit(absl::StrCat("it has ", file.st_size, " bytes; expected ", bytes));
  }
  // A peer may hand over a file without memory, which would be taken page by page as it is touched.
  if (!Reserve(memory.get(), static_cast<off_t>(bytes))) return Missing("fallocate");
  return Map(std::move(memory), bytes, sizes);
}

absl::StatusOr<std::unique_ptr<Region>> Region::Map(Descriptor memory, uint64_t bytes,
                                                    const RingSizes& sizes) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (at == MAP_FAILED) return Missing("mmap");
  return std::unique_ptr<Region>(new Region(std::move(memory), at, bytes, sizes));
}

Region::~Region() {
  munmap(at_, bytes_);
}

char* Region::ToShard() {
  return at_ + kHeadBytes;
}

}  // namespace paceline::shm
