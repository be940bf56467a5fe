// The errors that users read: each status says what it found, what it expected or waited for, and what to do.
// docs/errors.md lists them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "paceline/mocks/in_process_cluster.h"

namespace paceline {
namespace {

using ::paceline::mocks::InProcessCluster;
using ::testing::HasSubstr;
using enum absl::StatusCode;

constexpr absl::Duration kShort = absl::Milliseconds(150);
// The timeout of a read whose shard names, a fifth of it earlier, the worker that the read waits for.
constexpr absl::Duration kAnswered = absl::Seconds(1);
// Of a client whose flush is to fail for lack of time; it must be enough to connect.
constexpr absl::Duration kFlushTime = absl::Seconds(5);

// A cluster of two shards, a worker, a reader, and a table of each kind.
struct World {
  World() {
    cluster = *InProcessCluster::Start({.shards = 2});
    worker = *cluster->Connect({.job = "job", .workers = 1, .unacknowledged_bytes_max = 4096});
    reader = *cluster->Connect({.job = "job", .timeout = kFlushTime});
    sparse.emplace(*worker->OpenOrCreate("sparse", Sparse{.dim = 2}));
    ranged.emplace(*worker->OpenOrCreate("ranged", Ranged{.rows = 10, .dim = 2}));
  }

  // Runs `inside` in a callback.
  absl::Status InCallback(const std::function<absl::Status()>& inside) {
    // Nobody comes to clock 99: the result is not there yet, or the callback would be run by this thread.
    return sparse->PullAsync({1}, {.min_clock = 99, .timeout = kShort})
        .Then([&](const auto&) { return inside(); })
        .Get();
  }
  std::vector<uint64_t> ManyKeys() const {
    std::vector<uint64_t> keys(200);
    for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
    return keys;
  }

  std::unique_ptr<InProcessCluster> cluster;
  std::unique_ptr<Client> worker;
  std::unique_ptr<Client> reader;
  std::optional<Table> sparse;
  std::optional<Table> ranged;
};

absl::Status Connect(ClientOptions options) {
  return Client::Connect(std::move(options)).status();
}

struct Case {
  std::string name;
  std::function<absl::Status(World&)> provoke;
  absl::StatusCode code;
  std::vector<std::string> says;
};

// A vector rather than an array: what is printed of a failing case is its name.
const std::vector<Case>& Cases() {
  static const auto* cases = new std::vector<Case>{
      // -- Connect --
      {"NoCoordinator",
       [](World&) {
         unsetenv("PACELINE_COORDINATOR");
         return Connect({.job = "job"});
       },
       kInvalidArgument,
       {"coordinator: not given", "set ClientOptions::coordinator or PACELINE_COORDINATOR to host:port"}},
      {"CoordinatorWithoutPort",
       [](World&) { return Connect({.coordinator = "localhost", .job = "job"}); },
       kInvalidArgument,
       {"coordinator: 'localhost'", "expected host:port"}},
      {"NoJob",
       [](World& w) { return w.cluster->Connect({}).status(); },
       kInvalidArgument,
       {"job: empty", "set ClientOptions::job"}},
      {"BadJobName",
       [](World& w) { return w.cluster->Connect({.job = "a b"}).status(); },
       kInvalidArgument,
       {"job: 'a b'", "expected 1 to 128 letters, digits"}},
      {"RankWithoutClock",
       [](World& w) { return w.cluster->Connect({.job = "job", .rank = 1}).status(); },
       kInvalidArgument,
       {"rank: 1", "set ClientOptions::workers"}},
      {"RankTooLarge",
       [](World& w) { return w.cluster->Connect({.job = "job", .workers = 2, .rank = 2}).status(); },
       kInvalidArgument,
       {"rank: 2", "expected less than workers, 2"}},
      {"NoTime",
       [](World& w) { return w.cluster->Connect({.job = "job", .timeout = absl::ZeroDuration()}).status(); },
       kInvalidArgument,
       {"timeout: 0", "expected more than 0"}},
      {"BackoffsTheWrongWayRound",
       [](World& w) {
         return w.cluster
             ->Connect({.job = "job",
                        .retry = {.initial_backoff = absl::Seconds(2), .max_backoff = absl::Seconds(1)}})
             .status();
       },
       kInvalidArgument,
       {"retry.max_backoff: 1s", "no less than retry.initial_backoff, which is 2s"}},
      {"NobodyAtTheAddress",
       [](World&) { return Connect({.coordinator = "127.0.0.1:1", .job = "job", .timeout = kShort}); },
       kDeadlineExceeded,
       {"open session: coordinator at 127.0.0.1:1", "waited", "see that a coordinator runs there"}},
      {"TheOtherWorkersAreMissing",
       [](World& w) {
         return w.cluster
             ->Connect({.job = "two", .workers = 2, .timeout = kFlushTime, .start_timeout = kFlushTime})
             .status();
       },
       kDeadlineExceeded,
       {"1 of 2"}},
      // -- tables --
      {"SchemaThatIsNone",
       [](World& w) { return w.worker->OpenOrCreate("t", Sparse{.dim = 0}).status(); },
       kInvalidArgument,
       {"table 't'", "dim is 0", "expected"}},
      {"AnotherSchema",
       [](World& w) { return w.worker->OpenOrCreate("sparse", Sparse{.dim = 3}).status(); },
       kAlreadyExists,
       {"'sparse'", "dim: ", "open it with the schema it has, or choose another name"}},
      {"NoSuchTable",
       [](World& w) { return w.worker->Open("nowhere").status(); },
       kNotFound,
       {"'nowhere'", "does not exist", "create it"}},
      // -- arguments of pushes and pulls --
      {"WrongWidth",
       [](World& w) {
         return w.sparse->Push({1, 2}, {1, 2, 3});
       },
       kInvalidArgument,
       {"table 'sparse'", "there are 3 for 2 keys", "expected 2 for each key"}},
      {"NotANumber",
       [](World& w) {
         return w.sparse->Push({1}, {1, std::numeric_limits<float>::quiet_NaN()});
       },
       kInvalidArgument,
       {"table 'sparse'", "nan in row 0, column 1", "expected finite numbers", "accept_non_finite"}},
      {"KeyBeyondTheEnd",
       [](World& w) { return w.ranged->Pull({10}).status(); },
       kOutOfRange,
       {"table 'ranged'", "10 is not in the table", "expected 0 .. 9"}},
      {"RangeOfASparseTable",
       [](World& w) { return w.sparse->PullRange(0, 1).status(); },
       kInvalidArgument,
       {"table 'sparse'", "the table is sparse", "expected a ranged one", "push and pull by keys"}},
      {"HalfARow",
       [](World& w) {
         return w.ranged->PushRange(0, {1, 2, 3});
       },
       kInvalidArgument,
       {"table 'ranged'", "3 floats", "expected a multiple of 2"}},
      {"TooLittleRoom",
       [](World& w) {
         std::vector<float> out(3);
         return w.ranged->Pull({1, 2}, absl::MakeSpan(out));
       },
       kInvalidArgument,
       {"table 'ranged'", "room for 3 floats", "expected 4"}},
      // -- clocks --
      {"TickWithoutAClock",
       [](World& w) { return w.reader->Tick(); },
       kFailedPrecondition,
       {"tick: this client has no clock", "connect with ClientOptions::workers of 1 or more"}},
      {"FinishWithoutAClock",
       [](World& w) { return w.reader->Finish(); },
       kFailedPrecondition,
       {"finish: this client has no clock", "call Flush"}},
      {"PushAfterFinish",
       [](World& w) {
         EXPECT_TRUE(w.worker->Finish().ok());
         return w.sparse->Push({1}, {1, 1});
       },
       kFailedPrecondition,
       {"push: this worker has finished", "connect again"}},
      {"TickAfterFinish",
       [](World& w) {
         EXPECT_TRUE(w.worker->Finish().ok());
         return w.worker->Tick();
       },
       kFailedPrecondition,
       {"tick: this worker has finished", "connect again"}},
      // -- callbacks --
      {"GetInACallback",
       [](World& w) {
         return w.InCallback(
             [&] { return w.sparse->PullAsync({1}, {.min_clock = 99, .timeout = kShort}).Get().status(); });
       },
       kFailedPrecondition,
       {"Future::Get", "callback", "use OnReady, Then or AndThen"}},
      {"PullInACallback",
       [](World& w) { return w.InCallback([&] { return w.sparse->Pull({1}).status(); }); },
       kFailedPrecondition,
       {"pull", "callback", "use PullAsync"}},
      {"FlushInACallback",
       [](World& w) { return w.InCallback([&] { return w.worker->Flush(); }); },
       kFailedPrecondition,
       {"blocks", "callback", "use another thread"}},
      {"NoRoomInACallback",
       [](World& w) {
         const std::vector<uint64_t> keys = w.ManyKeys();
         return w.InCallback([&] {
           (void)w.sparse->PushAsync(keys, std::vector<float>(400));
           const Future<void> second = w.sparse->PushAsync(keys, std::vector<float>(400));
           return second.ready() ? second.Get() : absl::OkStatus();
         });
       },
       kResourceExhausted,
       {"push", "bytes are unacknowledged, at most 4096 may be", "unacknowledged_bytes_max"}},
      // -- waits --
      {"AWorkerThatIsBehind",
       [](World& w) {
         return w.sparse->Pull({1}, PullOptions{.min_clock = 5, .timeout = kAnswered}).status();
       },
       kDeadlineExceeded,
       {"pull of table 'sparse'", "for min clock 5", "it waits for worker 0 (session ", "at clock 0"}},
      {"AShardThatIsGone",
       [](World& w) {
         w.cluster->StopShard(1);
         return w.reader->Open("sparse")->Pull(w.ManyKeys(), PullOptions{.timeout = kShort}).status();
       },
       kDeadlineExceeded,
       {"pull of table 'sparse'", "waited 150ms", "shard-1 at 127.0.0.1:", "pull again to go on waiting"}},
      {"APushToAShardThatIsGone",
       [](World& w) {
         w.cluster->StopShard(1);
         return w.reader->Open("sparse")->Push(w.ManyKeys(), std::vector<float>(400), {.timeout = kShort});
       },
       kDeadlineExceeded,
       {"push to table 'sparse'", "not committed", "shard-1 at 127.0.0.1:", "Flush waits for it"}},
      {"AFlushOfAShardThatIsGone",
       [](World& w) {
         w.cluster->StopShard(1);
         (void)w.reader->Open("sparse")->PushAsync(w.ManyKeys(), std::vector<float>(400));
         return w.reader->Flush();
       },
       kDeadlineExceeded,
       {"flush", "not committed", "shard-1 at 127.0.0.1:", "flush again to go on waiting"}},
      {"NoRoomInTime",
       [](World& w) {
         w.cluster->StopShard(1);
         const std::vector<uint64_t> keys = w.ManyKeys();
         (void)w.sparse->PushAsync(keys, std::vector<float>(400));
         return w.sparse->Push(keys, std::vector<float>(400), {.timeout = kShort});
       },
       kDeadlineExceeded,
       {"push", "for room", "shard-1 at 127.0.0.1:", "push it again"}},
      // -- the end of a client --
      {"Evicted",
       [](World& w) {
         EXPECT_TRUE(w.cluster->Evict(*w.worker, "the machine is needed").ok());
         return w.sparse->Push(w.ManyKeys(), std::vector<float>(400));
       },
       kAborted,
       {"session", "job 'job'", "is over", "the machine is needed", "connect again"}},
      {"EvictedWhenATableIsOpened",
       [](World& w) {
         EXPECT_TRUE(w.cluster->Evict(*w.worker, "the machine is needed").ok());
         return w.worker->Open("sparse").status();
       },
       kAborted,
       {"session", "job 'job'", "is over", "the machine is needed", "connect again"}},
      {"Gone",
       [](World& w) {
         w.worker.reset();
         return w.sparse->Pull({1}).status();
       },
       kCancelled,
       {"the client is gone", "connect again"}},
  };
  return *cases;
}

class Errors : public ::testing::TestWithParam<size_t> {};

TEST_P(Errors, NameTheFaultAndTheRemedy) {
  const Case& c = Cases()[GetParam()];
  World world;
  const absl::Status status = c.provoke(world);
  EXPECT_EQ(status.code(), c.code) << status;
  for (const std::string& words : c.says) EXPECT_THAT(std::string(status.message()), HasSubstr(words));
}

INSTANTIATE_TEST_SUITE_P(All, Errors, ::testing::Range<size_t>(0, Cases().size()),
                         [](const auto& tested) { return Cases()[tested.param].name; });

}  // namespace
}  // namespace paceline
