#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace paceline::coordinator {

// A stored value, and the number of the commit that wrote it. Versions of one store only grow; a key that was
// deleted and written again has a newer version than before.
struct Entry {
  std::string value;
  uint64_t version = 0;

  friend bool operator==(const Entry&, const Entry&) = default;
};

// A condition on one key that must hold for a commit to take effect.
struct Condition {
  std::string key;
  std::optional<std::string> value;  // the key has exactly this value
  std::optional<uint64_t> version;   // … exactly this version; 0: the key is absent

  static Condition ValueIs(std::string key, std::string value);
  static Condition VersionIs(std::string key, uint64_t version);
  static Condition Absent(std::string key) { return VersionIs(std::move(key), 0); }
};

// One change of one key.
struct Write {
  std::string key;
  std::optional<std::string> value;  // nullopt: delete; deleting an absent key is no error

  static Write Put(std::string key, std::string value) { return {std::move(key), std::move(value)}; }
  static Write Delete(std::string key) { return {std::move(key), std::nullopt}; }
};

// Keeps every fact that the coordinator must know after a restart: a small ordered map from keys to values,
// changed by atomic commits under conditions. All of its content fits in memory many times over.
//
// Every implementation passes store_contract_test.cc. Calls must not overlap: the caller owns the store and
// serialises them. They block on the disk or the network.
//
// All calls may fail with:
//   kInvalidArgument     a limit below is exceeded, or the arguments contradict each other
//   kUnavailable         the store cannot be reached or written now; a Commit may or may not have taken
//                        effect. Repeating it is the remedy, so write absolute values
//   kResourceExhausted   the disk is full, otherwise as kUnavailable
//   kDataLoss            the bytes read differ from those written; do not repeat
class Store {
 public:
  static constexpr size_t kKeyBytesMax = 1024;
  static constexpr size_t kValueBytesMax = size_t{4} << 20;
  static constexpr size_t kCommitBytesMax = size_t{16} << 20;  // keys and values of all its writes

  virtual ~Store() = default;

  // nullopt: the key is absent. Sees every commit that returned OK.
  virtual absl::StatusOr<std::optional<Entry>> Get(absl::string_view key) const = 0;

  // All entries whose key starts with `prefix`, ascending by key, as of one moment.
  virtual absl::StatusOr<std::vector<std::pair<std::string, Entry>>> List(absl::string_view prefix) const = 0;

  // Does all `writes` if all `conditions` hold, otherwise none. Returns OK only once the writes are synced:
  // from then on they survive a loss of power. A commit may write a key only once.
  //
  // kFailedPrecondition: a condition does not hold; the message names the first such key.
  virtual absl::Status Commit(absl::Span<const Condition> conditions, absl::Span<const Write> writes) = 0;
};

// For implementations: refuses what every Commit must refuse, independent of the store's content.
absl::Status CheckCommit(absl::Span<const Condition> conditions, absl::Span<const Write> writes);

// For implementations: OK if the condition holds for the stored entry; otherwise kFailedPrecondition naming
// the key.
absl::Status CheckCondition(const Condition& condition, const std::optional<Entry>& stored);

}  // namespace paceline::coordinator
