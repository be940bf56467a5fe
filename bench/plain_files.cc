#include "bench/plain_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace paceline::bench {
namespace {

using Clock = std::chrono::steady_clock;

bool WriteAll(int fd, const std::string& bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = write(fd, bytes.data() + done, bytes.size() - done);
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

// Appends groups until `end`; bytes that are safe by then, or -1 with errno.
int64_t Append(const std::string& path, const std::string& group, Clock::time_point end) {
  const int fd = open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return -1;
  int64_t bytes = 0;
  while (bytes >= 0 && Clock::now() < end) {
    const bool safe = WriteAll(fd, group) && fdatasync(fd) == 0;
    bytes = safe ? bytes + static_cast<int64_t>(group.size()) : -1;
  }
  close(fd);
  unlink(path.c_str());
  return bytes;
}

}  // namespace

absl::StatusOr<double> PlainFilesBytesPerSecond(const std::filesystem::path& folder, int files,
                                                size_t group_bytes) {
  const std::string group(std::max<size_t>(group_bytes, 1), 'x');
  std::atomic<int64_t> bytes{0};
  std::atomic<int> error{0};
  const auto begin = Clock::now();
  std::vector<std::thread> threads;
  for (int i = 0; i < files; ++i) {
    threads.emplace_back([&, path = (folder / absl::StrCat("plain-", i)).string()] {
      const int64_t safe = Append(path, group, begin + std::chrono::seconds(1));
      if (safe < 0) error = errno;
      bytes += std::max<int64_t>(safe, 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("bench: plain files in ", folder.string(), ": ", std::strerror(error)));
  }
  const std::chrono::duration<double> took = Clock::now() - begin;
  return static_cast<double>(bytes) / took.count();
}

}  // namespace paceline::bench
