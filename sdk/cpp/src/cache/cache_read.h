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
#include "sdk/cpp/src/push/batch.h"
#include "sdk/cpp/src/session/client_core.h"

namespace paceline::sdk {

class ListedKeys;

// A read as the user makes it.
struct ReadCall {
  std::shared_ptr<const TableInfo> table;
  // The rows of `keys`; or, if `range`, of first, first + 1 … first + count - 1.
  absl::Span<const uint64_t> keys;
  std::shared_ptr<const ListedKeys> listed = nullptr;  // given: `keys` are its
  bool range = false;
  uint64_t first = 0;
  uint64_t count = 0;
  // Room for all rows. Written until `ended` is called; after an error its content is undefined.
  float* out = nullptr;
  std::optional<Clock> min_clock = {};  // unset: the bound of the table's consistency
  uint32_t priority = 0;
  absl::Duration timeout = absl::InfiniteDuration();
  // Called once, outside the gate; before ReadThroughCache returns if no row has to be fetched.
  absl::AnyInvocable<void(absl::Status)> ended = {};
};

// Enters the core's gate; false, without a call, if the client is gone. May be called until the read ends.
using EnterCore = std::function<bool(absl::FunctionRef<void(ClientCore&)>)>;
using AllocateLater = std::function<Buffer(size_t bytes)>;

// Reads through the cache: copies the cached rows that are fit, and pulls the others. If the table's model
// says so, it first asks shards which of the rows that are too old have changed, and pulls by key only those
// that are not fit even then. `gone` is the status of a read whose client is gone. `keys` must live only
// until this returns.
void ReadThroughCache(EnterCore enter, AllocateLater allocate, const absl::Status& gone, ReadCall call);

// A sink that copies the rows of a pull of `batch` to their places in `out`, which has room for all of them,
// and then calls `ended`.
std::shared_ptr<PullSink> MakeReceiver(std::shared_ptr<const Batch> batch, float* out,
                                       absl::AnyInvocable<void(absl::Status)> ended);

}  // namespace paceline::sdk
