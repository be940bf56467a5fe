#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "paceline/future.h"
#include "paceline/table.h"
#include "sdk/cpp/src/push/batch.h"
#include "sdk/cpp/src/push/listed_keys.h"
#include "sdk/cpp/src/table_state.h"

// The pushes of a Table, whose arguments have been checked.
namespace paceline::sdk {

// Groups keys and, for a push, their values. Null: the client is gone.
std::shared_ptr<const Batch> ByKeys(const TableState& state, absl::Span<const uint64_t> keys,
                                    absl::Span<const float> values);

// The same for a push of keys that are grouped already. `reads_back`: for StartPushPull.
std::shared_ptr<const Batch> ByList(const TableState& state, const ListedKeys& keys,
                                    absl::Span<const float> values, bool reads_back);

// `batch` may be null: the client is gone.
Future<void> StartPush(const std::shared_ptr<TableState>& state, std::shared_ptr<const Batch> batch,
                       const PushOptions& options);
Future<std::vector<float>> StartPushPull(TableState& state, std::shared_ptr<const Batch> batch,
                                         const PushPullOptions& options);
// Copies the values before it returns.
Future<void> StartPushRange(const std::shared_ptr<TableState>& state, uint64_t first, uint64_t count,
                            absl::Span<const float> values, const PushOptions& options);

// Waits for the push; of an aggregated table not for its commit.
absl::Status AwaitPush(TableState& state, Future<void> pushed);
// Pushes and waits. Sends large values from where they lie (loan.h).
absl::Status PushRange(const std::shared_ptr<TableState>& state, uint64_t first, uint64_t count,
                       absl::Span<const float> values, const PushOptions& options);

}  // namespace paceline::sdk
