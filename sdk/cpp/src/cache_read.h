#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "sdk/cpp/src/batch.h"
#include "sdk/cpp/src/client_core.h"

namespace paceline::sdk {

// A read as its user makes it.
struct ReadCall {
  std::shared_ptr<const TableInfo> table;
  // The rows of `keys`; or, if `range`, of first, first + 1 … first + count - 1.
  absl::Span<const uint64_t> keys;
  bool range = false;
  uint64_t first = 0;
  uint64_t count = 0;
  // Room for all of them. Written until `ended` is called; after an error its content is undefined.
  float* out = nullptr;
  std::optional<Clock> min_clock = {};  // unset: what the table's consistency asks for
  uint32_t priority = 0;
  absl::Duration timeout = absl::InfiniteDuration();
  // Called once, outside the gate; before this function returns if no row has to be fetched.
  absl::AnyInvocable<void(absl::Status)> ended = {};
};

// Enters the core's gate; false, without a call, if the client is gone. May be called until the read ends.
using EnterCore = std::function<bool(absl::FunctionRef<void(ClientCore&)>)>;
using AllocateLater = std::function<Buffer(size_t bytes)>;

// Reads through the cache: copies the rows that are at hand, and pulls the others. Where the table's model
// says so, shards are asked which of the rows that are too old have changed; only what is not good even then
// is pulled by key. `gone` is the status of a read whose client is gone. `keys` are needed until this returns
// only.
void ReadThroughCache(EnterCore enter, AllocateLater allocate, const absl::Status& gone, ReadCall call);

// Takes the rows of a pull of `batch` to their places in `out`, which has room for all of them, then calls
// `ended`.
std::shared_ptr<PullSink> MakeReceiver(std::shared_ptr<const Batch> batch, float* out,
                                       absl::AnyInvocable<void(absl::Status)> ended);

}  // namespace paceline::sdk
