#pragma once

namespace paceline::examples {

// From now on SIGTERM asks the process to stop, and does not end it.
void ListenForStop();
// Whether SIGTERM has come since.
bool ToldToStop();

}  // namespace paceline::examples
