#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "libs/carrier/descriptor.h"
#include "libs/carrier/pipe.h"
#include "libs/shm/frames.h"
#include "libs/shm/region.h"

namespace paceline::shm {

// Two rings in shared memory, and the socket over which they were handed over. The socket carries nothing but
// the shard's answer and bytes that wake the other end; its end is the end of the peer.
class RingPipe final : public carrier::Pipe {
 public:
  RingPipe(carrier::Side side, carrier::Descriptor socket, std::unique_ptr<Region> region,
           uint64_t frame_bytes_max);

  void Begin(carrier::FrameKind kind, absl::Cord bytes) override { out_.Begin(kind, std::move(bytes)); }
  bool writing() const override { return out_.writing(); }
  Wrote WriteOn() override;
  bool FinishWrites() override { return true; }  // the peer keeps the memory
  bool AwaitRoom() override { return out_.AwaitRoom(); }
  bool HasRoom() override { return out_.CanContinue(); }
  void RiseWriter() override { out_.Rise(); }

  Got Next(absl::Cord* frame) override;
  bool HasBytes() override { return in_.HasBytes(); }
  bool amid_frame() const override { return in_.amid_frame(); }
  bool Sleep() override { return in_.Sleep(); }
  void Rise() override { in_.Rise(); }
  const absl::Status& problem() const override { return in_.problem(); }
  void Discard() override {}

  int socket() const override { return socket_.get(); }
  void OnSocket(uint32_t events) override;
  bool needs_socket() const override { return false; }
  const std::optional<absl::Status>& gone() const override { return gone_; }
  const std::optional<absl::Status>& answer() const override { return answer_; }
  void Shut() override;

 private:
  const std::unique_ptr<Region> region_;
  const carrier::Descriptor socket_;
  FrameWriter out_;
  FrameReader in_;
  std::optional<absl::Status> gone_;
  std::optional<absl::Status> answer_;
};

}  // namespace paceline::shm
