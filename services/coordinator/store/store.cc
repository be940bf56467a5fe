#include "services/coordinator/store/store.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"

namespace paceline::coordinator {
namespace {

absl::Status CheckKey(absl::string_view key) {
  if (!key.empty() && key.size() <= Store::kKeyBytesMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("store: a key of ", key.size(), " bytes; expected 1 to ", Store::kKeyBytesMax));
}

std::string Described(const std::optional<Entry>& stored) {
  return stored.has_value() ? absl::StrCat("is there at version ", stored->version) : "is absent";
}

}  // namespace

Condition Condition::ValueIs(std::string key, std::string value) {
  return {.key = std::move(key), .value = std::move(value), .version = std::nullopt};
}

Condition Condition::VersionIs(std::string key, uint64_t version) {
  return {.key = std::move(key), .value = std::nullopt, .version = version};
}

absl::Status CheckCommit(absl::Span<const Condition> conditions, absl::Span<const Write> writes) {
  for (const Condition& condition : conditions) ABSL_RETURN_IF_ERROR(CheckKey(condition.key));
  std::set<absl::string_view> written;
  size_t bytes = 0;
  for (const Write& write : writes) {
    ABSL_RETURN_IF_ERROR(CheckKey(write.key));
    if (!written.insert(write.key).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("store: key ", write.key, " is written twice in one commit; write it once"));
    }
    const size_t size = write.value.has_value() ? write.value->size() : 0;
    if (size > Store::kValueBytesMax) {
      return absl::InvalidArgumentError(absl::StrCat("store: key ", write.key, " has a value of ", size,
                                                     " bytes; expected at most ", Store::kValueBytesMax));
    }
    bytes += write.key.size() + size;
  }
  if (bytes <= Store::kCommitBytesMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("store: a commit of ", bytes, " bytes; expected at most ", Store::kCommitBytesMax));
}

absl::Status CheckCondition(const Condition& condition, const std::optional<Entry>& stored) {
  const uint64_t version = stored.has_value() ? stored->version : 0;
  if (condition.version.has_value() && *condition.version != version) {
    return absl::FailedPreconditionError(absl::StrCat("store: key ", condition.key,
                                                      " was expected at version ", *condition.version,
                                                      ", but ", Described(stored)));
  }
  if (condition.value.has_value() && (!stored.has_value() || *condition.value != stored->value)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "store: key ", condition.key, " was expected to have another value, but ", Described(stored)));
  }
  return absl::OkStatus();
}

}  // namespace paceline::coordinator
