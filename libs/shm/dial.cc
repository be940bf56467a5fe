#include "libs/shm/dial.h"

#include <utility>

#include "libs/base/status.h"
#include "libs/shm/handover.h"
#include "libs/shm/stream.h"

namespace paceline::shm {

absl::StatusOr<std::unique_ptr<world::StreamPort>> Dial(Loop& loop, const std::string& path,
                                                        world::StreamKind kind,
                                                        std::shared_ptr<world::StreamHandler> handler,
                                                        DialOptions options) {
  ABSL_ASSIGN_OR_RETURN(Descriptor socket, ConnectTo(path));
  ABSL_ASSIGN_OR_RETURN(std::unique_ptr<Region> region, Region::Create(options.sizes));
  ABSL_RETURN_IF_ERROR(SendOffer(socket.get(), kind, options.sizes, region->fd()));
  region->CloseDescriptor();
  auto stream =
      std::make_shared<Stream>(loop.waker(), Stream::Parts{.side = Stream::Side::kClient,
                                                           .peer = path,
                                                           .socket = std::move(socket),
                                                           .region = std::move(region),
                                                           .frame_bytes_max = options.frame_bytes_max,
                                                           .handler = std::move(handler),
                                                           .stuck_max = options.stuck_max,
                                                           .refused = std::move(options.refused)});
  if (!loop.Add(stream)) return absl::CancelledError("this end has stopped");
  return Stream::PortAtClient(std::move(stream));
}

}  // namespace paceline::shm
