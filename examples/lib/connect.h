#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "paceline/client.h"

namespace paceline::examples {

// Client::Connect that waits, as long as for the other workers, for a rank that another session still has:
// that of a former start of this worker, which has died, is given free when its silence is noticed.
absl::StatusOr<std::unique_ptr<Client>> ConnectPatiently(const ClientOptions& options);

}  // namespace paceline::examples
