#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libs/wire/frame.h"
#include "libs/wire/packed.h"
#include "services/shard/shard.h"
#include "tests/fuzz/fuzz.h"

// A shard for fuzz targets of its streams: it serves a ring of four segments, tables of every kind, two
// sessions of job 1 that are workers and one that is none.
namespace paceline::fuzz {

inline constexpr uint32_t kSparse = 1;
inline constexpr uint32_t kRanged = 2;
inline constexpr uint32_t kForeign = 3;
inline constexpr uint64_t kWorker = 5;
inline constexpr uint64_t kSlowWorker = 6;
inline constexpr uint64_t kReader = 7;
inline constexpr int kRingBits = 2;
inline constexpr uint32_t kSegments = 1 << kRingBits;

class ManualClock : public world::Clock {
 public:
  absl::Time Now() const override { return now; }
  absl::Time now = absl::UnixEpoch();
};

class ShardUnderFire {
 public:
  ShardUnderFire();

  // A key of the sparse table that lies in `segment`.
  static uint64_t KeyIn(uint32_t segment);

  ManualClock clock;
  shard::Probe probe;
  shard::Shard shard;
};

// The carrier of one stream: hands frames over and takes replies at once.
template <class Request, class Reply>
class Wire : public world::StreamPort {
 public:
  // `until_let_go` has time pass after the stream's end, for what holds it a while longer.
  explicit Wire(
      std::shared_ptr<world::AcceptedStream> stream, std::function<void()> until_let_go = [] {})
      : stream_(std::move(stream)), until_let_go_(std::move(until_let_go)) {
    // Not owned: the stream lets go of its port when it ends, and this one may outlive it.
    stream_->Attach(std::shared_ptr<world::StreamPort>(std::shared_ptr<void>(), this));
  }
  ~Wire() override {
    const std::weak_ptr<world::AcceptedStream> stream = stream_;
    stream_->OnBroken(absl::CancelledError("the input is over"));
    stream_ = nullptr;
    until_let_go_();
    FUZZ_CHECK(stream.expired(), "nothing holds a stream that has ended");
  }

  void Kick() override {
    absl::Cord bytes;
    while (stream_->NextFrame(&bytes)) {
      auto reply = wire::Decode<Reply>(bytes);
      FUZZ_CHECK(reply.ok(), "replies can be read");
      replies.push_back(*std::move(reply));
    }
  }
  void Close(absl::Status) override { closed = true; }

  void Send(absl::string_view bytes) {
    stream_->OnFrame(absl::Cord(bytes));
    FUZZ_CHECK(!closed, "the stream lives on");
  }
  void Send(const wire::Frame<Request>& frame) { Send(std::string(wire::Encode(frame))); }
  void Hello(uint64_t session) { Send(HelloOf(session)); }

  static std::string HelloOf(uint64_t session) {
    Request hello;
    hello.mutable_hello()->set_feature_level(1);
    hello.mutable_hello()->set_job(1);
    hello.mutable_hello()->set_session(session);
    return hello.SerializeAsString();
  }

  std::vector<wire::Frame<Reply>> replies;
  bool closed = false;

 private:
  std::shared_ptr<world::AcceptedStream> stream_;
  const std::function<void()> until_let_go_;
};

inline std::string Part(uint32_t segment, uint32_t count, uint64_t number, uint64_t epoch = 1) {
  std::string out;
  wire::Append(wire::PartEntry{SegmentId(segment), count, Epoch(epoch), number}, out);
  return out;
}

template <class T>
absl::Cord Bytes(const std::vector<T>& values) {
  return absl::Cord(
      absl::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)));
}

}  // namespace paceline::fuzz
