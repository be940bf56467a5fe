#pragma once

#include <string>

#include "libs/base/ids.h"
#include "libs/filter/filter.h"
#include "libs/ring/placement.h"
#include "libs/table/schema.h"
#include "paceline/table_schema.h"

namespace paceline::sdk {

// A table as clients know it. Immutable; shared by all its users.
struct TableInfo {
  TableId id;
  std::string name;
  table::Schema schema;
  ring::Placement placement;
  Consistency consistency;
  PushFilter push_filter = {};  // of this client's pushes
  filter::LinkFilters link_filters = {};

  // "table 'weights'", for messages.
  std::string Name() const { return "table '" + name + "'"; }
  Line line() const { return schema.aggregated ? Line::kAggregated : Line::kArrival; }
};

}  // namespace paceline::sdk
