#include "libs/shm/ring_pipe.h"

#include <sys/socket.h>

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "libs/shm/handover.h"

namespace paceline::shm {

RingPipe::RingPipe(carrier::Side side, carrier::Descriptor socket, std::unique_ptr<Region> region,
                   uint64_t frame_bytes_max)
    : region_(std::move(region)),
      socket_(std::move(socket)),
      out_(side == carrier::Side::kShard ? region_->WriterToClient() : region_->WriterToShard()),
      in_(side == carrier::Side::kShard ? region_->ReaderAtShard() : region_->ReaderAtClient(),
          frame_bytes_max) {
  if (side == carrier::Side::kShard) answer_ = absl::OkStatus();
}

carrier::Pipe::Wrote RingPipe::WriteOn() {
  return out_.Continue([this] { Ring(socket_.get()); });
}

carrier::Pipe::Got RingPipe::Next(absl::Cord* frame) {
  return in_.Next(frame, [this] { Ring(socket_.get()); });
}

void RingPipe::OnSocket(uint32_t) {
  const absl::StatusOr<std::string> message = TakeMessage(socket_.get());
  if (absl::IsUnavailable(message.status())) {
    gone_ = message.status();
    in_.Freeze();
    return;
  }
  if (answer_.has_value() || !message.ok()) return;
  absl::Status taken;
  if (!ParseAnswer(*message, &taken)) taken = absl::UnavailableError("its answer has another form");
  answer_ = std::move(taken);
}

void RingPipe::Shut() {
  out_.LetGo();
  (void)shutdown(socket_.get(), SHUT_RDWR);
}

}  // namespace paceline::shm
