#pragma once

#include "libs/filter/filter.h"
#include "paceline/filters.h"

namespace paceline::sdk {

// The user's filters as those of libs/filter.
filter::LinkFilters ToCore(const LinkFilters& filters);

}  // namespace paceline::sdk
