#include "services/coordinator/metadata/facts/catalogue.h"

namespace paceline::coordinator {

v1::Catalogue CatalogueOf(const Facts& facts, std::optional<uint32_t> job) {
  v1::Catalogue catalogue;
  catalogue.set_version(facts.counters().catalogue_version());
  catalogue.set_newest_table(facts.counters().table());
  for (const auto& [id, table] : facts.tables()) {
    if (!job.has_value() || table.job() == *job) *catalogue.add_tables() = table;
  }
  return catalogue;
}

}  // namespace paceline::coordinator
