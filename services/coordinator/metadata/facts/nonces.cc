#include "services/coordinator/metadata/facts/nonces.h"

#include <algorithm>

namespace paceline::coordinator {
namespace {

// Of drains so many, since scripts may ask for them often: they must not push out those of restores and
// deletions, which take long.
constexpr int kDrainNoncesMax = 64;

bool IsOfDrain(const NoncesRecord::Begun& begun) {
  return begun.job() == 0;
}

}  // namespace

const NoncesRecord::Begun* FindNonce(const NoncesRecord& nonces, uint64_t nonce) {
  for (const NoncesRecord::Begun& begun : nonces.begun()) {
    if (nonce != 0 && begun.nonce() == nonce) return &begun;
  }
  return nullptr;
}

NoncesRecord With(NoncesRecord nonces, uint64_t nonce, uint32_t job, uint64_t clock) {
  if (nonce == 0 || FindNonce(nonces, nonce) != nullptr) return nonces;
  auto& all = *nonces.mutable_begun();
  if (job == 0 && std::ranges::count_if(all, IsOfDrain) >= kDrainNoncesMax) {
    all.erase(std::ranges::find_if(all, IsOfDrain));
  }
  if (all.size() == kNoncesMax) all.erase(all.begin());
  NoncesRecord::Begun& begun = *nonces.add_begun();
  begun.set_nonce(nonce);
  begun.set_job(job);
  begun.set_clock(clock);
  return nonces;
}

}  // namespace paceline::coordinator
