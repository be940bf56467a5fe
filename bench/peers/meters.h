#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace paceline::bench::peers {

// CPU seconds of all threads of a process so far, with those that have ended; 0 for process 0 and one that is
// gone.
double ProcessCpuSeconds(pid_t process);
// Bytes of memory that a process has; 0 for process 0 and one that is gone.
uint64_t ResidentBytes(pid_t process);

// CPU time of the machine: of everybody, and of this process and the children that it has waited for.
struct MachineCpu {
  double all = 0;
  double ours = 0;

  static MachineCpu Now();
};

// The value below which `q` of them lie; 0 for none.
double Quantile(std::vector<float> values, double q);

// True: this process has a real-time priority, which its children would inherit.
bool HasRealTimePriority();

}  // namespace paceline::bench::peers
