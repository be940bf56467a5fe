#pragma once

#include <map>
#include <string>

#include "absl/time/time.h"
#include "libs/filter/coder.h"
#include "paceline/stats.h"

namespace paceline::sdk {

// Adds up what filters do, for Client::stats().
class FilterCounts final : public filter::Observer {
 public:
  // `uses` must outlive it.
  explicit FilterCounts(std::map<std::string, FilterUse>& uses) : uses_(uses) {}

  void Filtered(filter::Filter filter, uint64_t plain, uint64_t coded, absl::Duration took) override {
    FilterUse& use = uses_[std::string(filter::NameOf(filter))];
    use.bytes_plain += plain;
    use.bytes_coded += coded;
    use.seconds += absl::ToDoubleSeconds(took);
  }

 private:
  std::map<std::string, FilterUse>& uses_;
};

}  // namespace paceline::sdk
