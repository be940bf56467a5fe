#include "examples/lib/stop.h"

#include <csignal>

namespace paceline::examples {
namespace {

volatile std::sig_atomic_t stop_requested = 0;

void RequestStop(int) {
  stop_requested = 1;
}

}  // namespace

void ListenForStop() {
  std::signal(SIGTERM, RequestStop);
}

bool ToldToStop() {
  return stop_requested != 0;
}

}  // namespace paceline::examples
