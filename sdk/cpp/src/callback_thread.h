#pragma once

namespace paceline::sdk {

// From now on a wait on this thread for a client's own future fails instead of blocking for ever.
void ThisThreadRunsCallbacks();

}  // namespace paceline::sdk
