#include "paceline/future.h"

#include "sdk/cpp/src/callback_thread.h"

namespace paceline {
namespace {

thread_local bool waiting_is_forbidden = false;

}  // namespace

namespace internal {

bool WaitingIsForbidden() {
  return waiting_is_forbidden;
}

}  // namespace internal

namespace sdk {

void ThisThreadRunsCallbacks() {
  waiting_is_forbidden = true;
}

}  // namespace sdk
}  // namespace paceline
