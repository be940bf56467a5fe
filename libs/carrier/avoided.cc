#include "libs/carrier/avoided.h"

#include "libs/world/real_clock.h"

namespace paceline::carrier {

bool Avoided::Has(const std::string& address) {
  MutexLock lock(&mutex_);
  const auto at = until_.find(address);
  if (at == until_.end()) return false;
  if (world::MonotonicNow() < at->second) return true;
  until_.erase(at);
  return false;
}

void Avoided::Add(const std::string& address) {
  const absl::Time now = world::MonotonicNow();
  MutexLock lock(&mutex_);
  std::erase_if(until_, [&](const auto& one) { return one.second <= now; });
  until_[address] = now + kAvoid;
}

}  // namespace paceline::carrier
