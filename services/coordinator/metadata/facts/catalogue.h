#pragma once

#include <cstdint>
#include <optional>

#include "paceline/v1/types.pb.h"
#include "services/coordinator/metadata/facts/facts.h"

namespace paceline::coordinator {

// The list of tables in wire form: all tables, or those of one job, the only ones that the job's sessions may
// see. O(tables).
v1::Catalogue CatalogueOf(const Facts& facts, std::optional<uint32_t> job = std::nullopt);

}  // namespace paceline::coordinator
