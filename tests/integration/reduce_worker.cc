// Pushes to a table of ranges and reduces it again and again, and says so line by line: "reducing" before
// each reduction, and its outcome as JSON after it, beside what had been pushed. Ends when its standard input
// does, with a last line of what there is then.
//
//   reduce_worker JOB ROWS
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "libs/world/random.h"
#include "nlohmann/json.hpp"
#include "paceline/client.h"

namespace {

constexpr size_t kKeysAPush = 2'000;

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "reduce_worker: %s\n", status.ToString().c_str());
  return 1;
}

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// What another thread pushes: 1 to so many keys at a time.
struct Pushed {
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> sent = 0;
  std::atomic<uint64_t> committed = 0;
  absl::Status status;
};

void PushAlong(paceline::Table table, uint64_t rows, Pushed& pushed) {
  paceline::world::SplitMix64 random(17);
  while (!pushed.stop && pushed.status.ok()) {
    std::vector<uint64_t> keys;
    for (size_t i = 0; i < kKeysAPush; ++i) keys.push_back(paceline::world::Uniform(random, rows));
    pushed.sent += keys.size();
    pushed.status = table.Push(keys, std::vector<float>(keys.size(), 1));
    if (pushed.status.ok()) pushed.committed += keys.size();
  }
}

nlohmann::json JsonOf(const paceline::Reduced& reduced, uint64_t least, uint64_t most) {
  return {{"value", reduced.value}, {"rows", reduced.rows}, {"least", least}, {"most", most}};
}

// Until the pushes are told to stop.
absl::Status ReduceAlong(paceline::Table table, Pushed& pushed) {
  while (!pushed.stop) {
    const uint64_t least = pushed.committed;
    Say("reducing");
    const absl::StatusOr<paceline::Reduced> reduced = table.Reduce(paceline::Reduction::kSum);
    if (!reduced.ok()) return reduced.status();
    Say(JsonOf(*reduced, least, pushed.sent).dump());
  }
  return absl::OkStatus();
}

int Run(const std::string& job, uint64_t rows) {
  auto pusher = paceline::Client::Connect({.job = job, .client_name = "pusher"});
  if (!pusher.ok()) return Fail(pusher.status());
  auto reader = paceline::Client::Connect({.job = job, .client_name = "reader"});
  if (!reader.ok()) return Fail(reader.status());
  const paceline::Ranged schema{.rows = rows, .consistency = paceline::Asp{}};
  auto to_push = (*pusher)->OpenOrCreate("wide", schema);
  if (!to_push.ok()) return Fail(to_push.status());
  auto to_read = (*reader)->OpenOrCreate("wide", schema);
  if (!to_read.ok()) return Fail(to_read.status());
  // Every row is there from the beginning, so that each reduction has something to do.
  if (absl::Status all = to_push->PushRange(0, std::vector<float>(rows, 0)); !all.ok()) return Fail(all);

  Pushed pushed;
  std::thread pushes([&] { PushAlong(*to_push, rows, pushed); });
  std::thread input([&] {
    while (std::getchar() != EOF) {
    }
    pushed.stop = true;
  });
  const absl::Status reduced = ReduceAlong(*to_read, pushed);
  pushed.stop = true;
  pushes.join();
  input.join();
  if (!reduced.ok()) return Fail(reduced);
  if (!pushed.status.ok()) return Fail(pushed.status);
  const absl::StatusOr<paceline::Reduced> last = to_read->Reduce(paceline::Reduction::kSum);
  if (!last.ok()) return Fail(last.status());
  Say(JsonOf(*last, pushed.committed, pushed.committed).dump());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return Fail(absl::InvalidArgumentError("expected JOB ROWS"));
  return Run(argv[1], std::strtoull(argv[2], nullptr, 10));
}
