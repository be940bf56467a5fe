// A ring of shared memory whose other end is hostile: it writes positions, flags and bytes as the input says,
// at any time. Nothing is read or written beyond the ring, nothing blocks, and a frame that was taken is
// whole and no longer than allowed.
#include <cstring>
#include <memory>
#include <vector>

#include "libs/shm/frames.h"
#include "tests/fuzz/fuzz.h"

namespace paceline {
namespace {

constexpr uint64_t kRingBytes = 4096;
constexpr uint64_t kFrameMax = 100'000;

// Each step of an input: what to do, and with which number.
struct Step {
  uint8_t what;
  uint32_t number;
};

std::string Pack(const std::vector<Step>& steps) {
  std::string out;
  for (const Step& step : steps) {
    out.push_back(static_cast<char>(step.what));
    out.append(reinterpret_cast<const char*>(&step.number), sizeof(step.number));
  }
  return out;
}

enum What : uint8_t { kHead, kTail, kBytes, kFlags, kRead, kWrite, kFarHead };

class Fire {
 public:
  void Do(const Step& step) {
    switch (step.what % 7) {
      case kHead:
        words_->head = words_->head + step.number;
        return;
      case kTail:
        words_->tail = step.number;
        return;
      case kBytes:
        std::memcpy(data_.data() + step.number % (kRingBytes - sizeof(step.number)), &step.number,
                    sizeof(step.number));
        return;
      case kFlags:
        words_->reader_sleeps = step.number;
        words_->writer_waits = step.number >> 8;
        return;
      case kRead:
        return Read();
      case kWrite:
        return Write(step.number % 10'000);
      case kFarHead:
        words_->head = uint64_t{step.number} << 32;
        return;
    }
  }

 private:
  void Read() {
    absl::Cord frame;
    for (int i = 0; i < 4; ++i) {
      const carrier::Pipe::Got got = reader_.Next(&frame, [] {});
      if (got == carrier::Pipe::Got::kDamaged) {
        FUZZ_CHECK(!reader_.problem().ok(), "damage has a reason");
        return;
      }
      if (got == carrier::Pipe::Got::kEnd) (void)carrier::DecodeEnd(frame);
      FUZZ_CHECK(frame.size() <= kFrameMax, "no frame is longer than allowed");
      if (got == carrier::Pipe::Got::kNothing) break;
    }
    (void)reader_.Sleep();
    reader_.Rise();
  }
  void Write(size_t size) {
    if (!writer_.writing()) writer_.Begin(carrier::FrameKind::kFrame, absl::Cord(std::string(size, 'x')));
    (void)writer_.Continue([] {});
  }

  // Exactly as large as they must be, so that a sanitizer sees a step beyond.
  std::vector<char> data_ = std::vector<char>(kRingBytes);
  std::vector<char> other_ = std::vector<char>(kRingBytes);
  const std::unique_ptr<shm::RingWords> words_ = std::make_unique<shm::RingWords>();
  shm::FrameReader reader_{shm::RingReader(*words_, data_.data(), kRingBytes), kFrameMax};
  shm::FrameWriter writer_{shm::RingWriter(*words_, other_.data(), kRingBytes)};
};

}  // namespace

std::vector<fuzz::Seed> fuzz::Seeds() {
  return {{"a_frame", Pack({{kBytes, 0}, {kHead, 8}, {kRead, 0}})},
          {"frames_to_and_fro", Pack({{kWrite, 100}, {kHead, 64}, {kRead, 0}, {kTail, 50}, {kWrite, 5'000}})},
          {"a_head_that_lies", Pack({{kFarHead, 7}, {kRead, 0}, {kWrite, 3}})},
          {"a_tail_that_lies", Pack({{kWrite, 5'000}, {kTail, 9'999}, {kWrite, 1}, {kFlags, 257}})}};
}

}  // namespace paceline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  Fire fire;
  for (size_t at = 0; at + 5 <= size && at < 5 * 300; at += 5) {
    Step step{.what = data[at], .number = 0};
    std::memcpy(&step.number, data + at + 1, sizeof(step.number));
    fire.Do(step);
  }
  return 0;
}
