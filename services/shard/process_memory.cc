#include "services/shard/process_memory.h"

#include <malloc.h>
#include <unistd.h>

#include <cstdio>

namespace paceline::shard {

ProcessMemory ReadProcessMemory() {
  ProcessMemory memory;
  unsigned long pages = 0;
  if (std::FILE* statm = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(statm, "%*u %lu", &pages) != 1) pages = 0;
    std::fclose(statm);
  }
  memory.resident = uint64_t{pages} * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  memory.allocator = mallinfo2().fordblks;
  return memory;
}

}  // namespace paceline::shard
