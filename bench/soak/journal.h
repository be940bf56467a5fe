#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace paceline::bench {

// A worker's journal of its pushes, from which they can be summed up even if the worker was killed. It has
// each push before it is made, with the sum of its values, and again once it is acknowledged. Lines of text,
// each handed to the kernel before the caller goes on; none is lost with the process. Thread-safe.
class Journal {
 public:
  static absl::StatusOr<std::unique_ptr<Journal>> Create(const std::string& path);
  ~Journal();

  // Returns the push's number.
  uint64_t Begin(uint64_t sum);
  void Acknowledged(uint64_t push);

 private:
  explicit Journal(int file) : file_(file) {}
  void Write(const std::string& line) const;

  const int file_;
  std::atomic<uint64_t> pushes_{0};
};

struct JournalSums {
  uint64_t acknowledged = 0;    // of the values that were acknowledged
  uint64_t unacknowledged = 0;  // of the others
  uint64_t pushes = 0;
};

// The sums of one journal. A last line without its end does not count: the push that it announces did not
// begin. An error names a line that no worker writes.
absl::StatusOr<JournalSums> SumsOf(const std::string& path);

}  // namespace paceline::bench
