#pragma once

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/base/status.h"
#include "services/coordinator/store/store.h"

// Records as values of the store.
namespace paceline::coordinator {

// kDataLoss: the value is none.
template <class Record>
absl::StatusOr<Record> Parse(absl::string_view key, const Entry& entry) {
  Record record;
  if (record.ParseFromString(entry.value)) return record;
  return absl::DataLossError(absl::StrCat("store: the value of key ", key, " is no ", record.GetTypeName(),
                                          "; restore the store from a backup, or start a new cluster"));
}

template <class Record>
Write Put(std::string key, const Record& record) {
  return Write::Put(std::move(key), record.SerializeAsString());
}

// nullopt: the key does not exist.
template <class Record>
absl::StatusOr<std::optional<Record>> Read(const Store& store, absl::string_view key) {
  ABSL_ASSIGN_OR_RETURN(const std::optional<Entry> entry, store.Get(key));
  if (!entry.has_value()) return std::optional<Record>();
  ABSL_ASSIGN_OR_RETURN(Record record, Parse<Record>(key, *entry));
  return std::optional<Record>(std::move(record));
}

}  // namespace paceline::coordinator
