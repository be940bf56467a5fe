#pragma once

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "sdk/cpp/src/client_state.h"
#include "sdk/cpp/src/session/context.h"

namespace paceline::sdk {

// The state behind a Table.
class TableState {
 public:
  TableState(std::shared_ptr<ClientState> of_client, std::shared_ptr<const TableInfo> of_table)
      : client(std::move(of_client)), info(std::move(of_table)) {}

  // The same status, with the table's name before its message.
  absl::Status Named(const absl::Status& status) const {
    if (status.ok()) return status;
    return {status.code(), absl::StrCat(info->Name(), ": ", status.message())};
  }

  const std::shared_ptr<ClientState> client;
  const std::shared_ptr<const TableInfo> info;
};

}  // namespace paceline::sdk
