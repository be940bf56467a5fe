#include "bench/peers/meters.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace paceline::bench::peers {

double ProcessCpuSeconds(pid_t process) {
  clockid_t clock = 0;
  timespec time{};
  // Finer than /proc/PID/stat, which counts in hundredths of a second.
  if (process == 0 || clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

uint64_t ResidentBytes(pid_t process) {
  if (process == 0) return 0;
  std::ifstream statm(absl::StrCat("/proc/", process, "/statm"));
  uint64_t size = 0;
  uint64_t resident = 0;
  statm >> size >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

MachineCpu MachineCpu::Now() {
  MachineCpu now;
  std::ifstream stat("/proc/stat");
  std::string cpu;
  double user = 0, nice = 0, system = 0, idle = 0, io_wait = 0, interrupts = 0, soft_interrupts = 0;
  stat >> cpu >> user >> nice >> system >> idle >> io_wait >> interrupts >> soft_interrupts;
  now.all = (user + nice + system + interrupts + soft_interrupts) / static_cast<double>(sysconf(_SC_CLK_TCK));
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    for (const timeval& t : {usage.ru_utime, usage.ru_stime}) {
      now.ours += static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    }
  }
  return now;
}

double Quantile(std::vector<float> values, double q) {
  if (values.empty()) return 0;
  const size_t at = std::min(values.size() - 1, static_cast<size_t>(q * static_cast<double>(values.size())));
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(at), values.end());
  return values[at];
}

bool HasRealTimePriority() {
  const int policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
  return policy == SCHED_FIFO || policy == SCHED_RR;
}

}  // namespace paceline::bench::peers
