#include "libs/base/spin.h"

#include <algorithm>
#include <atomic>
#include <thread>

namespace paceline {
namespace {

std::atomic<int> spinning{0};

int SpinningMax() {
  static const int most = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / 2);
  return most;
}

}  // namespace

SpinPermit::SpinPermit() : given_(spinning.fetch_add(1) < SpinningMax()) {}
SpinPermit::~SpinPermit() {
  spinning.fetch_sub(1);
}

}  // namespace paceline
