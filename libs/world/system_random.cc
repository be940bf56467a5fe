#include "libs/world/system_random.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace paceline::world {

uint64_t SystemRandom::Next() {
  uint64_t value = 0;
  ssize_t got = 0;
  do {
    got = getrandom(&value, sizeof(value), 0);
  } while (got < 0 && errno == EINTR);  // while the kernel still gathers entropy, right after boot
  if (got != static_cast<ssize_t>(sizeof(value))) {
    std::fprintf(stderr, "getrandom gave %zd of %zu bytes: %s\n", got, sizeof(value), std::strerror(errno));
    std::abort();
  }
  return value;
}

}  // namespace paceline::world
