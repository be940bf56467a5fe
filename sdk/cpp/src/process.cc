#include "paceline/process.h"

#include <malloc.h>

#include "absl/synchronization/mutex.h"

namespace paceline {

void TuneProcess() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

}  // namespace paceline
