#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "examples/lib/totals.h"
#include "nlohmann/json_fwd.hpp"
#include "paceline/filters.h"
#include "paceline/kkt.h"
#include "paceline/push_filter.h"

namespace paceline::examples {

// What --filters says: words that commas separate.
struct Filters {
  // The KKT filter: so much of FTRL's lambda1 the workers together may keep of a coordinate whose weight is
  // 0, before they send it. In (0, 1].
  std::optional<double> kkt = std::nullopt;
  PushFilter push = {};   // of the table's pushes
  LinkFilters link = {};  // of what travels; what `push` rounds is packed as well
};
absl::StatusOr<Filters> ParseFilters(absl::string_view text);

// Of one of `workers` workers whose rule is FTRL with this lambda1.
KktFilter MakeKktFilter(const Filters& filters, float lambda1, uint32_t workers);

// What each filter kept from being sent: a line for each; empty without filters.
std::string FormatFilters(const Filters& filters, const Totals& totals);
// The same, an object with a key for each.
nlohmann::ordered_json FiltersJson(const Filters& filters, const Totals& totals);

}  // namespace paceline::examples
