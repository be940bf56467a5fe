#pragma once

#include <memory>
#include <utility>

#include "sdk/cpp/src/client_state.h"
#include "sdk/cpp/src/session/context.h"

namespace paceline::sdk {

// The state behind a Table.
class TableState {
 public:
  TableState(std::shared_ptr<ClientState> of_client, std::shared_ptr<const TableInfo> of_table)
      : client(std::move(of_client)), info(std::move(of_table)) {}

  const std::shared_ptr<ClientState> client;
  const std::shared_ptr<const TableInfo> info;
};

}  // namespace paceline::sdk
