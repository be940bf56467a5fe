// The lock and the passing of time, among threads.
#include "services/coordinator/core_host.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "libs/base/feature_level.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/world/real_clock.h"
#include "services/coordinator/store/memory_store.h"

namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;

// A shard on a thread of its own. It is primary of all segments, and leaves the first answers incomplete.
class ThreadShard final : public ShardCaller {
 public:
  explicit ThreadShard(CoreHost& host) : host_(host), thread_([this] { Work(); }) {}
  ~ThreadShard() override {
    Queue(nullptr);
    thread_.join();
  }

  void Install(ShardId, const std::string&, v1::InstallRequest request, InstallDone done) override {
    host_.Later([this, request = std::move(request), done = std::move(done)] {
      Queue([this, request, done] {
        v1::InstallReply reply;
        map_version_ = std::max(map_version_, request.map().version());
        catalogue_version_ = std::max(catalogue_version_, request.catalogue().version());
        reply.set_map_version(map_version_);
        reply.set_catalogue_version(catalogue_version_);
        done(reply);
      });
    });
  }
  // Its segments have one member each: nobody asks for these.
  void Fence(ShardId, const std::string&, v1::FenceRequest, FenceDone) override { ADD_FAILURE(); }
  void Recruit(ShardId, const std::string&, v1::RecruitRequest, RecruitDone) override { ADD_FAILURE(); }
  void HandOver(ShardId, const std::string&, v1::HandOverRequest, HandOverDone) override { ADD_FAILURE(); }
  void Identify(ShardId, const std::string&, v1::IdentifyRequest, IdentifyDone) override { ADD_FAILURE(); }
  void EmptyFolder(ShardId, const std::string&, v1::EmptyFolderRequest, EmptyFolderDone) override {
    ADD_FAILURE();
  }
  void MakeChange(ShardId, const std::string&, v1::Change change, ChangeDone done) override {
    host_.Later([this, change = std::move(change), done = std::move(done)] {
      Queue([this, change, done] {
        v1::ChangeReply reply;
        reply.set_map_version(change.map_version());
        const uint32_t segments = incomplete_answers-- > 0 ? 7 : 8;
        for (uint32_t s = 0; s < segments; ++s) reply.add_committed(s);
        done(reply);
      });
    });
  }

  std::atomic<int> incomplete_answers = 0;

 private:
  void Queue(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    more_.notify_one();
  }
  void Work() {
    while (true) {
      std::unique_lock lock(mutex_);
      more_.wait(lock, [this] { return !queue_.empty(); });
      const std::function<void()> work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      if (work == nullptr) return;
      host_.Visit([&](Candidate&) { work(); });
    }
  }

  CoreHost& host_;
  uint64_t map_version_ = 0;  // accessed in visits only, as is this
  uint64_t catalogue_version_ = 0;
  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<std::function<void()>> queue_;
  std::thread thread_;
};

class CoreHostTest : public ::testing::Test {
 protected:
  CoreHostTest() {
    EXPECT_THAT(host_.Start({.ring_bits = 3, .random = &random_}, *store_, shard_, probe_), IsOk());
    v1::JoinClusterRequest join;
    join.set_feature_level(kFeatureLevel);
    join.set_name("shard-0");
    join.set_address("host:1");
    join.set_nonce(1);
    EXPECT_THAT(host_.Visit([&](Candidate& c) { return c.leader()->JoinCluster(join); }), IsOk());
  }

  // Before the shard goes: time that passes calls it.
  ~CoreHostTest() override { host_.Stop(); }

  // Blocks until the answer is there.
  absl::StatusOr<v1::OpenSessionReply> Open(uint64_t nonce, absl::Duration timeout = absl::Seconds(20)) {
    v1::OpenSessionRequest request;
    request.set_feature_level(1);  // its session has no secret
    request.set_job("ctr");
    request.set_nonce(nonce);
    return Await<v1::OpenSessionReply>([&](CoordinatorCore& core, Done<v1::OpenSessionReply> done) {
      core.OpenSession(request, clock_.Now() + timeout, std::move(done));
    });
  }
  absl::StatusOr<v1::CloseSessionReply> Close(uint64_t session) {
    v1::CloseSessionRequest request;
    request.set_session(session);
    return Await<v1::CloseSessionReply>([&](CoordinatorCore& core, Done<v1::CloseSessionReply> done) {
      core.CloseSession(request, absl::InfiniteFuture(), std::move(done));
    });
  }
  template <class Reply, class Ask>
  absl::StatusOr<Reply> Await(Ask ask) {
    std::mutex mutex;
    std::condition_variable answered;
    std::optional<absl::StatusOr<Reply>> answer;
    host_.Visit([&](Candidate& candidate) {
      ask(*candidate.leader(), [&](absl::StatusOr<Reply> reply) {
        host_.Later([&, reply = std::move(reply)] {
          const std::lock_guard lock(mutex);
          answer = reply;
          answered.notify_one();
        });
      });
    });
    std::unique_lock lock(mutex);
    answered.wait(lock, [&] { return answer.has_value(); });
    return *answer;
  }

  const world::RealClock clock_;
  world::SplitMix64 random_{1};
  Probe probe_;
  std::unique_ptr<MemoryStore> store_ = *MemoryStore::Open(std::make_shared<MemoryStore::Disk>());
  CoreHost host_{clock_};
  ThreadShard shard_{host_};
};

TEST_F(CoreHostTest, ServesManyThreads) {
  std::vector<std::thread> clients;
  for (uint64_t c = 0; c < 4; ++c) {
    clients.emplace_back([this, c] {
      for (uint64_t n = 1; n <= 25; ++n) {
        const auto session = Open(100 * c + n);
        ASSERT_THAT(session, IsOk());
        EXPECT_THAT(Close(session->session()), IsOk());
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(host_.Visit([](Candidate& c) { return c.gauges(); }).requests_waiting, 0u);
}

TEST_F(CoreHostTest, TimePassesByItself) {
  // The answers that are missing are asked for again, and what waits beyond its time is answered.
  shard_.incomplete_answers = 3;
  EXPECT_THAT(Open(1), IsOk());
  shard_.incomplete_answers = 1'000'000;
  EXPECT_THAT(Open(2, absl::Milliseconds(100)), StatusIs(StatusCode::kUnavailable));
}

TEST_F(CoreHostTest, DeferredWorkMayVisitAgain) {
  int visits = 0;
  host_.Visit([&](Candidate&) {
    host_.Later([&] { host_.Visit([&](Candidate&) { ++visits; }); });
    EXPECT_EQ(visits, 0);
  });
  EXPECT_EQ(visits, 1);
}

TEST_F(CoreHostTest, StoppingAnswersWaitingRequests) {
  shard_.incomplete_answers = 1'000'000;
  std::thread waiting(
      [this] { EXPECT_THAT(Open(1), StatusIs(StatusCode::kUnavailable, ::testing::HasSubstr("stopping"))); });
  while (host_.Visit([](Candidate& c) { return c.gauges(); }).requests_waiting == 0) continue;
  host_.Stop();
  waiting.join();
  host_.Stop();
  EXPECT_THAT(Open(2), StatusIs(StatusCode::kUnavailable));
}

}  // namespace
}  // namespace paceline::coordinator
