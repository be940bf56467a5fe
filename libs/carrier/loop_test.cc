// The order in which a loop serves its streams, whose frames have all come before it looks.
#include "libs/carrier/loop.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <deque>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/mutex.h"
#include "libs/carrier/descriptor.h"
#include "libs/carrier/pipe.h"
#include "libs/carrier/stream.h"
#include "libs/carrier/test_util/stream_ends.h"
#include "libs/world/soon.h"

namespace paceline::carrier {
namespace {

constexpr size_t kSmall = 100;
constexpr size_t kLarge = size_t{256} << 10;

// What all streams of a test have taken.
struct Log {
  void Note(char name, uint64_t pauses) {
    MutexLock lock(&mutex);
    order.push_back(name);
    pauses_before.push_back(pauses);
    changed.SignalAll();
  }
  std::string Await(size_t frames) {
    MutexLock lock(&mutex);
    EXPECT_TRUE(changed.AwaitFor(&mutex, kSoon, [&] { return order.size() >= frames; }));
    return order;
  }

  Mutex mutex;
  CondVar changed;
  std::string order;
  std::vector<uint64_t> pauses_before;  // of each frame
};

class Taker final : public world::StreamHandler {
 public:
  Taker(char name, Log& log) : name_(name), log_(log) {}
  void OnFrame(absl::Cord) override { log_.Note(name_, world::Soon::Pauses()); }
  bool NextFrame(absl::Cord*) override { return false; }
  void OnBroken(absl::Status) override {}

 private:
  const char name_;
  Log& log_;
};

// Frames to be read; nothing is written.
class Frames final : public Pipe {
 public:
  explicit Frames(const std::vector<size_t>& sizes) : sizes_(sizes.begin(), sizes.end()) {}

  void Begin(FrameKind, absl::Cord) override {}
  bool writing() const override { return false; }
  Wrote WriteOn() override { return Wrote::kAll; }
  bool FinishWrites() override { return true; }
  bool AwaitRoom() override { return false; }
  bool HasRoom() override { return true; }
  void RiseWriter() override {}
  Got Next(absl::Cord* frame) override {
    *frame = absl::Cord(std::string(sizes_.front(), 'x'));
    sizes_.pop_front();
    return Got::kFrame;
  }
  bool HasBytes() override { return !sizes_.empty(); }
  bool amid_frame() const override { return false; }
  bool Sleep() override { return sizes_.empty(); }
  void Rise() override {}
  const absl::Status& problem() const override { return problem_; }
  void Discard() override {}
  int socket() const override { return event_.get(); }
  // Its bell brings another frame.
  void OnSocket(uint32_t) override {
    uint64_t count = 0;
    if (read(event_.get(), &count, sizeof(count)) == sizeof(count)) sizes_.push_back(kSmall);
  }
  bool needs_socket() const override { return false; }
  const std::optional<absl::Status>& gone() const override { return gone_; }
  const std::optional<absl::Status>& answer() const override { return answer_; }
  void Shut() override {}

 private:
  std::deque<size_t> sizes_;
  const Descriptor event_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  const absl::Status problem_;
  const std::optional<absl::Status> gone_;
  const std::optional<absl::Status> answer_;
};

class LoopTest : public ::testing::Test {
 protected:
  // Streams a, b, …, each with frames of these sizes.
  void Carry(const std::vector<std::vector<size_t>>& streams) {
    loop_ = std::make_unique<Loop>(Loop::Options{.first = [this] { all_are_there_.wait(); }});
    char name = 'a';
    for (const std::vector<size_t>& sizes : streams) {
      auto pipe = std::make_unique<Frames>(sizes);
      bells_.push_back(pipe->socket());
      auto stream = std::make_shared<Stream>(loop_->waker(),
                                             Stream::Parts{.side = Side::kShard,
                                                           .peer = std::string(1, name),
                                                           .pipe = std::move(pipe),
                                                           .handler = std::make_shared<Taker>(name, log_)});
      ASSERT_TRUE(loop_->Add(std::move(stream)));
      ++name;
    }
    all_are_there_.count_down();
  }

  Log log_;
  std::latch all_are_there_{1};
  std::vector<int> bells_;
  std::unique_ptr<Loop> loop_;
};

TEST_F(LoopTest, SmallFramesOfAStreamAreTakenInARow) {
  Carry({std::vector<size_t>(10, kSmall), std::vector<size_t>(10, kSmall)});
  EXPECT_EQ(log_.Await(20), "aaaaaaaabbbbbbbbaabb");
}

TEST_F(LoopTest, LargeFramesOfStreamsAreTakenInTurn) {
  Carry({{kLarge, kLarge, kLarge}, {kLarge, kSmall, kLarge}});
  EXPECT_EQ(log_.Await(6), "ababba") << "a small one lets the next one in";
}

// Frames without one between them come from somebody who has several under way.
TEST_F(LoopTest, APauseIsWhereThereIsNothingToDo) {
  Carry({std::vector<size_t>(9, kSmall), {kLarge, kLarge}});
  log_.Await(11);
  std::vector<uint64_t> pauses;
  {
    MutexLock lock(&log_.mutex);
    pauses = log_.pauses_before;
  }
  EXPECT_THAT(pauses, ::testing::Each(pauses[0]));
  const uint64_t one = 1;
  ASSERT_EQ(write(bells_[0], &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  log_.Await(12);
  MutexLock lock(&log_.mutex);
  EXPECT_GT(log_.pauses_before[11], pauses[0]);
}

}  // namespace
}  // namespace paceline::carrier
