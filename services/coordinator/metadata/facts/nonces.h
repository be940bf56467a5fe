#pragma once

#include <cstdint>

#include "metadata/records.pb.h"

// Requests to delete a job, to make one of a snapshot, or to drain shards, bear a nonce. A client that got no
// answer sends its request again, and by then another job may have the name, or the drain be cancelled. So
// what a request began is committed together with its nonce, and the same request is about the same job, or
// drain, whenever it comes again, also to the next coordinator.
namespace paceline::coordinator {

// The newest are kept. A client sends a request again for minutes; so many others take longer.
inline constexpr int kNoncesMax = 256;

// What the request with this nonce began; nullptr: it is the first, or the nonce is 0.
const NoncesRecord::Begun* FindNonce(const NoncesRecord& nonces, uint64_t nonce);
// `nonces`, and what a request with this nonce begins: the end of a job, or one made of a snapshot that is as
// of `clock`; or, with job 0, a drain. Unchanged if the nonce is 0.
NoncesRecord With(NoncesRecord nonces, uint64_t nonce, uint32_t job, uint64_t clock = 0);

}  // namespace paceline::coordinator
