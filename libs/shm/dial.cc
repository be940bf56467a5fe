#include "libs/shm/dial.h"

#include <utility>

#include "libs/base/status.h"
#include "libs/carrier/stream.h"
#include "libs/shm/handover.h"
#include "libs/shm/ring_pipe.h"

namespace paceline::shm {

absl::StatusOr<std::unique_ptr<world::StreamPort>> Dial(carrier::Loop& loop, const std::string& path,
                                                        world::StreamKind kind,
                                                        std::shared_ptr<world::StreamHandler> handler,
                                                        DialOptions options) {
  ABSL_ASSIGN_OR_RETURN(Descriptor socket, ConnectTo(path));
  ABSL_ASSIGN_OR_RETURN(std::unique_ptr<Region> region, Region::Create(options.sizes));
  ABSL_RETURN_IF_ERROR(SendOffer(socket.get(), kind, options.sizes, region->fd()));
  region->CloseDescriptor();
  auto pipe = std::make_unique<RingPipe>(carrier::Side::kClient, std::move(socket), std::move(region),
                                         options.frame_bytes_max);
  const auto answered = [refused = std::move(options.refused)](const absl::Status& taken) {
    if (!taken.ok() && refused != nullptr) refused(taken);
  };
  auto stream =
      std::make_shared<carrier::Stream>(loop.waker(), carrier::Stream::Parts{.side = carrier::Side::kClient,
                                                                             .peer = path,
                                                                             .pipe = std::move(pipe),
                                                                             .handler = std::move(handler),
                                                                             .stuck_max = options.stuck_max,
                                                                             .answered = answered});
  if (!loop.Add(stream)) return absl::CancelledError("this end has stopped");
  return carrier::Stream::PortAtClient(std::move(stream));
}

}  // namespace paceline::shm
