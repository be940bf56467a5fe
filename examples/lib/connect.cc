#include "examples/lib/connect.h"

#include "absl/time/clock.h"
#include "examples/lib/steady_now.h"

namespace paceline::examples {

absl::StatusOr<std::unique_ptr<Client>> ConnectPatiently(const ClientOptions& options) {
  constexpr absl::Duration kAskAgainEvery = absl::Milliseconds(500);
  const absl::Time until = SteadyNow() + options.start_timeout;
  while (true) {
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(options);
    const bool again = absl::IsAlreadyExists(client.status()) || absl::IsAborted(client.status());
    if (!again || SteadyNow() > until) return client;
    absl::SleepFor(kAskAgainEvery);
  }
}

}  // namespace paceline::examples
