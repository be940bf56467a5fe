#include "services/coordinator/metadata/facts/nonces.h"

namespace paceline::coordinator {

const NoncesRecord::Begun* FindNonce(const NoncesRecord& nonces, uint64_t nonce) {
  for (const NoncesRecord::Begun& begun : nonces.begun()) {
    if (nonce != 0 && begun.nonce() == nonce) return &begun;
  }
  return nullptr;
}

NoncesRecord With(NoncesRecord nonces, uint64_t nonce, uint32_t job, uint64_t clock) {
  if (nonce == 0 || FindNonce(nonces, nonce) != nullptr) return nonces;
  if (nonces.begun_size() == kNoncesMax) nonces.mutable_begun()->erase(nonces.begun().begin());
  NoncesRecord::Begun& begun = *nonces.add_begun();
  begun.set_nonce(nonce);
  begun.set_job(job);
  begun.set_clock(clock);
  return nonces;
}

}  // namespace paceline::coordinator
