#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

// What `paceline-bench peers` measures side by side: this project, other parameter stores, and the machine's
// own limits, each behind the same few functions.
namespace paceline::bench::peers {

enum class Op { kPush, kPull };
const char* NameOf(Op op);

// The rows that every system holds: all are there, and touched, before anything is measured.
struct Data {
  std::string name;   // "rows of 16 values"
  uint64_t rows = 0;  // keys 0 … rows − 1
  uint32_t dim = 0;   // f32 values of each
  bool dense =
      false;  // one tensor, which is only pushed and pulled as a whole; `rows` and `dim` as we keep it

  uint64_t bytes() const { return rows * dim * sizeof(float); }
};

// Requests of one kind on Data. Request i takes the batch i modulo batches().
struct Work {
  size_t batch = 0;        // rows a request
  size_t outstanding = 1;  // requests
  std::vector<uint64_t>
      keys;  // one batch after the other, ascending and distinct within each; empty where dense
  std::filesystem::path in_file;  // the same as u64, for a client that is another process

  size_t batches() const { return keys.empty() ? 1 : keys.size() / batch; }
  const uint64_t* keys_of(uint64_t request) const { return keys.data() + request % batches() * batch; }
};

// One stretch of requests of one system. With several outstanding each is timed until it is known to be done,
// in the order in which they were made.
struct Turn {
  double seconds = 0;
  std::vector<float> us;  // of each request
  double client_cpu_seconds = 0;
  double server_cpu_seconds = 0;
};

// A server and its client. A push adds 1 to every value of its rows, unless the system says otherwise; a pull
// brings the values to the client's memory. For one thread. Its processes end with it.
class System {
 public:
  virtual ~System() = default;

  virtual std::string name() const = 0;
  virtual bool Takes(const Data& data, const Work& work) const = 0;

  // Makes and touches every row: after this, each value is 1.
  virtual absl::Status Touch() = 0;
  // Makes requests for `duration`, at least one: the first takes batch `first`. `work` is there until the
  // system goes.
  virtual absl::StatusOr<Turn> Run(Op op, const Work& work, uint64_t first, absl::Duration duration) = 0;
  // How many rows are not as `pushes` of each must have left them.
  virtual absl::StatusOr<uint64_t> WrongRows(const std::vector<uint32_t>& pushes) = 0;

  // Where CPU time is spent, and, of the server, where rows lie. 0: there is no such process.
  virtual pid_t client_process() const = 0;
  virtual pid_t server_process() const = 0;
};

}  // namespace paceline::bench::peers
