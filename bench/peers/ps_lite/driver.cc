// ps-lite in the processes that `paceline-bench peers` starts and measures: a scheduler, a server that adds,
// and a worker that does what it is told over a Unix socket (bench/peers/ps_lite_system.cc has the other
// end).
//
//   ps_lite_driver scheduler|server|worker PORT ROWS DIM flat|map [CONTROL_SOCKET]
//
// The worker says `ready`. Then each line that it gets is a command, and it answers each with a line:
//
//   touch
//     -> ok                          it has added 1 to every value
//   run push|pull FILE BATCH OUTSTANDING FIRST SECONDS
//     -> ok REQUESTS SECONDS         behind the line an f32 for each request: how many microseconds it took
//   check FILE
//     -> ok WRONG_ROWS
//   epoch FILE
//     -> ok SECONDS LOSS             it has trained by all batches of FILE once; LOSS is a mean
//
// FILE of `run` has u64 keys, BATCH of them a request, ascending within each; request i takes batch FIRST +
// i, and after the last one the first. FILE of `check` has an f32 a row: what each of its values must be.
// FILE of `epoch` has what WriteBatches of ps_lite_system.h writes.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bench/lr_model.h"
#include "ps/ps.h"

namespace {

namespace lr = paceline::bench::lr;

using Clock = std::chrono::steady_clock;
using Pairs = ps::KVPairs<float>;
using Server = ps::KVServer<float>;

constexpr size_t kTouchBatch = 10'000;

struct Options {
  std::string role;
  std::string port;
  uint64_t rows = 0;
  size_t dim = 0;
  std::string handle;
  std::string control;
};

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "ps_lite_driver: %s\n", what.c_str());
  std::exit(1);
}

double Seconds(Clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

// -- server --

// Adds to rows that lie in one array, at their key: the least that a server can do.
class FlatHandle {
 public:
  explicit FlatHandle(const Options& options) : dim_(options.dim), size_(options.rows * options.dim) {}

  void operator()(const ps::KVMeta& meta, const Pairs& request, Server* server) {
    if (values_ == nullptr) values_.reset(new float[size_]());  // counted as what the rows take
    const size_t n = request.keys.size();
    Pairs answer;
    if (meta.push) {
      const float* from = request.vals.data();
      for (size_t i = 0; i < n; ++i, from += dim_) {
        float* row = values_.get() + request.keys.data()[i] * dim_;
        for (size_t j = 0; j < dim_; ++j) row[j] += from[j];
      }
    }
    if (meta.pull) {
      answer.keys = request.keys;
      answer.vals = ps::SArray<float>(new float[n * dim_], n* dim_, /*deletable=*/true);
      float* to = answer.vals.data();
      for (size_t i = 0; i < n; ++i, to += dim_) {
        std::memcpy(to, values_.get() + request.keys.data()[i] * dim_, dim_ * sizeof(float));
      }
    }
    server->Response(meta, answer);
  }

 private:
  const size_t dim_;
  const size_t size_;
  std::unique_ptr<float[]> values_;
};

// KVServerDefaultHandle for rows of more than one value, which it does not take.
class MapHandle {
 public:
  explicit MapHandle(const Options& options) : dim_(options.dim) {}

  void operator()(const ps::KVMeta& meta, const Pairs& request, Server* server) {
    const size_t n = request.keys.size();
    Pairs answer;
    if (meta.pull) {
      answer.keys = request.keys;
      answer.vals.resize(n * dim_);
    }
    for (size_t i = 0; i < n; ++i) {
      std::vector<float>& row = store_[request.keys.data()[i]];
      row.resize(dim_);
      if (meta.push) {
        const float* from = request.vals.data() + i * dim_;
        for (size_t j = 0; j < dim_; ++j) row[j] += from[j];
      }
      if (meta.pull) std::copy(row.begin(), row.end(), answer.vals.data() + i * dim_);
    }
    server->Response(meta, answer);
  }

 private:
  const size_t dim_;
  std::unordered_map<ps::Key, std::vector<float>> store_;
};

Server::ReqHandle MakeHandle(const Options& options) {
  // Shared: a std::function may be copied, the rows may not.
  if (options.handle == "flat") {
    auto handle = std::make_shared<FlatHandle>(options);
    return [handle](const ps::KVMeta& m, const Pairs& r, Server* s) { (*handle)(m, r, s); };
  }
  if (options.dim == 1) {
    auto handle = std::make_shared<ps::KVServerDefaultHandle<float>>();
    return [handle](const ps::KVMeta& m, const Pairs& r, Server* s) { (*handle)(m, r, s); };
  }
  auto handle = std::make_shared<MapHandle>(options);
  return [handle](const ps::KVMeta& m, const Pairs& r, Server* s) { (*handle)(m, r, s); };
}

// -- worker --

template <typename T>
std::vector<T> ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) Fail("cannot read " + path);
  std::vector<T> all(static_cast<size_t>(in.tellg()) / sizeof(T));
  in.seekg(0);
  if (!in.read(reinterpret_cast<char*>(all.data()), static_cast<std::streamsize>(all.size() * sizeof(T)))) {
    Fail("cannot read " + path);
  }
  return all;
}

// One that does not own what it shows.
template <typename T>
ps::SArray<T> View(const T* data, size_t size) {
  return ps::SArray<T>(const_cast<T*>(data), size);
}

std::vector<lr::Batch> ReadBatches(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const auto read = [&](auto& values, size_t size) {
    values.resize(size);
    in.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(size * sizeof(values[0])));
  };
  std::vector<lr::Batch> batches;
  for (uint64_t keys = 0; in.read(reinterpret_cast<char*>(&keys), sizeof(keys));) {
    lr::Batch& batch = batches.emplace_back();
    read(batch.keys, keys);
    read(batch.places, lr::kBatch * lr::kFeaturesPerExample);
    read(batch.labels, lr::kBatch);
    if (!in) break;
  }
  if (!in.eof() || batches.empty()) Fail("cannot read batches from " + path);
  return batches;
}

struct Turn {
  double seconds = 0;
  std::vector<float> us;
};

class Worker {
 public:
  explicit Worker(const Options& options) : rows_(options.rows), dim_(options.dim), kv_(0, 0) {}

  // Adds 1 to every value.
  void Touch() {
    ForEachBatch([&](const std::vector<ps::Key>& keys) {
      const std::vector<float> ones(keys.size() * dim_, 1.0f);
      kv_.Wait(kv_.ZPush(View(keys.data(), keys.size()), View(ones.data(), ones.size())));
    });
  }

  Turn Run(bool push, const std::string& file, size_t batch, size_t outstanding, size_t first,
           double seconds) {
    std::vector<ps::Key>& keys = keys_[file];
    if (keys.empty()) keys = ReadAll<ps::Key>(file);
    const size_t batches = keys.size() / batch;
    ones_.resize(batch * dim_, 1.0f);
    // Kept, so that its memory is not part of what is measured.
    std::vector<ps::SArray<float>>& pulled = pulled_[{batch, outstanding}];
    if (pulled.empty()) {
      pulled.resize(outstanding);
      for (auto& values : pulled) values.resize(batch * dim_);
    }
    struct Request {
      int timestamp;
      Clock::time_point began;
    };
    std::deque<Request> requests;
    Turn turn;
    const Clock::time_point began = Clock::now();
    const auto await_oldest = [&] {
      kv_.Wait(requests.front().timestamp);
      turn.us.push_back(static_cast<float>(1e6 * Seconds(Clock::now() - requests.front().began)));
      requests.pop_front();
    };
    size_t sent = 0;
    do {
      if (requests.size() == outstanding) await_oldest();
      const auto some = View(keys.data() + (first + sent) % batches * batch, batch);
      const Clock::time_point now = Clock::now();
      const int timestamp = push ? kv_.ZPush(some, View(ones_.data(), ones_.size()))
                                 : kv_.ZPull(some, &pulled[sent % outstanding]);
      requests.push_back({timestamp, now});
      ++sent;
    } while (Seconds(Clock::now() - began) < seconds);
    while (!requests.empty()) await_oldest();
    turn.seconds = Seconds(Clock::now() - began);
    return turn;
  }

  struct Epoch {
    double seconds = 0;
    double loss = 0;
  };
  // As bench/lr_epoch.cc does it with our client.
  Epoch Train(const std::string& file) {
    std::vector<lr::Batch>& batches = epochs_[file];
    if (batches.empty()) batches = ReadBatches(file);
    struct Pull {
      int timestamp = 0;
      ps::SArray<float> weights;
    };
    std::array<Pull, lr::kAhead> pulls;  // of the batches that follow
    const auto pull = [&](size_t b) {
      const lr::Batch& batch = batches[b];
      Pull& next = pulls[b % lr::kAhead];
      next.weights.resize(batch.keys.size());
      next.timestamp = kv_.ZPull(View(batch.keys.data(), batch.keys.size()), &next.weights);
    };
    std::vector<int> pushes;
    std::vector<float> errors(lr::kBatch);
    Epoch epoch;
    const Clock::time_point began = Clock::now();
    for (size_t b = 0; b < std::min(lr::kAhead, batches.size()); ++b) pull(b);
    for (size_t b = 0; b < batches.size(); ++b) {
      const lr::Batch& batch = batches[b];
      const Pull& of_batch = pulls[b % lr::kAhead];
      kv_.Wait(of_batch.timestamp);
      const float* weights = of_batch.weights.data();
      for (size_t i = 0; i < lr::kBatch; ++i)
        errors[i] = lr::Error(batch, i, batch.places, weights, epoch.loss);
      ps::SArray<float> steps(batch.keys.size());  // the server adds them
      lr::AddGradients(errors, batch.places, -lr::kLearningRate, steps.data());
      if (b + lr::kAhead < batches.size()) pull(b + lr::kAhead);
      pushes.push_back(kv_.ZPush(View(batch.keys.data(), batch.keys.size()), steps));
    }
    for (const int push : pushes) kv_.Wait(push);
    epoch.seconds = Seconds(Clock::now() - began);
    epoch.loss /= static_cast<double>(batches.size() * lr::kBatch);
    return epoch;
  }

  uint64_t WrongRows(const std::string& file) {
    const std::vector<float> expected = ReadAll<float>(file);
    if (expected.size() != rows_) Fail("check: as many numbers as rows are needed");
    uint64_t wrong = 0;
    ForEachBatch([&](const std::vector<ps::Key>& keys) {
      ps::SArray<float> values(keys.size() * dim_);
      kv_.Wait(kv_.ZPull(View(keys.data(), keys.size()), &values));
      for (size_t i = 0; i < keys.size(); ++i) {
        const float* row = values.data() + i * dim_;
        if (std::any_of(row, row + dim_, [&](float v) { return v != expected[keys[i]]; })) ++wrong;
      }
    });
    return wrong;
  }

 private:
  template <typename Visit>
  void ForEachBatch(const Visit& visit) {
    std::vector<ps::Key> keys;
    for (uint64_t first = 0; first < rows_; first += keys.size()) {
      keys.clear();
      for (uint64_t k = first; k < std::min<uint64_t>(rows_, first + kTouchBatch); ++k) keys.push_back(k);
      visit(keys);
    }
  }

  const uint64_t rows_;
  const size_t dim_;
  ps::KVWorker<float> kv_;
  std::map<std::string, std::vector<ps::Key>> keys_;      // of each file
  std::map<std::string, std::vector<lr::Batch>> epochs_;  // of each file
  std::vector<float> ones_;
  std::map<std::pair<size_t, size_t>, std::vector<ps::SArray<float>>>
      pulled_;  // of a batch's size, and so many
};

int Connect(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) Fail("the name of the control socket is too long: " + path);
  std::strcpy(address.sun_path, path.c_str());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    Fail("cannot connect to " + path + ": " + std::strerror(errno));
  }
  return fd;
}

void Serve(Worker& worker, int control) {
  FILE* in_file = fdopen(control, "r");
  FILE* out_file = fdopen(dup(control), "w");
  const auto answer = [&](const std::string& line, const std::vector<float>& numbers = {}) {
    std::fputs((line + "\n").c_str(), out_file);
    std::fwrite(numbers.data(), sizeof(float), numbers.size(), out_file);
    std::fflush(out_file);
  };
  answer("ready");
  char line[4096];
  while (std::fgets(line, sizeof(line), in_file) != nullptr) {
    std::istringstream in(line);
    std::string command, what, file;
    in >> command;
    if (command == "touch") {
      worker.Touch();
      answer("ok");
    } else if (command == "run") {
      size_t batch = 0, outstanding = 0, first = 0;
      double seconds = 0;
      if (!(in >> what >> file >> batch >> outstanding >> first >> seconds))
        Fail(std::string("cannot read: ") + line);
      const Turn turn = worker.Run(what == "push", file, batch, outstanding, first, seconds);
      std::ostringstream out;
      out.precision(12);
      out << "ok " << turn.us.size() << " " << turn.seconds;
      answer(out.str(), turn.us);
    } else if (command == "check" && in >> file) {
      answer("ok " + std::to_string(worker.WrongRows(file)));
    } else if (command == "epoch" && in >> file) {
      const Worker::Epoch epoch = worker.Train(file);
      std::ostringstream out;
      out.precision(12);
      out << "ok " << epoch.seconds << " " << epoch.loss;
      answer(out.str());
    } else {
      Fail(std::string("no such command: ") + line);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) Fail("usage: ps_lite_driver scheduler|server|worker PORT ROWS DIM flat|map [CONTROL_SOCKET]");
  const Options options{.role = argv[1],
                        .port = argv[2],
                        .rows = std::strtoull(argv[3], nullptr, 10),
                        .dim = std::strtoull(argv[4], nullptr, 10),
                        .handle = argv[5],
                        .control = argc > 6 ? argv[6] : ""};
  setenv("DMLC_ROLE", options.role.c_str(), 1);
  setenv("DMLC_NUM_SERVER", "1", 1);
  setenv("DMLC_NUM_WORKER", "1", 1);
  setenv("DMLC_PS_ROOT_URI", "127.0.0.1", 1);
  setenv("DMLC_PS_ROOT_PORT", options.port.c_str(), 1);
  setenv("DMLC_NODE_HOST", "127.0.0.1", 1);
  ps::Start(0);
  std::unique_ptr<Server> server;
  if (ps::IsServer()) {
    server = std::make_unique<Server>(0);
    server->set_request_handle(MakeHandle(options));
  }
  if (ps::IsWorker()) {
    Worker worker(options);
    Serve(worker, Connect(options.control));
    std::_Exit(0);  // ps-lite's own end waits for all others
  }
  while (true) pause();
}
