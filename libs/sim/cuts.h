#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace paceline::sim {

// Which hosts cannot reach which others for a while, each direction by itself: the network is there, and
// nothing gets through. What was sent on a stream waits, as TCP would send it again, unless the stream breaks
// meanwhile; calls and their answers are lost.
class Cuts {
 public:
  // From whom to whom, by name.
  using Way = std::pair<std::string, std::string>;
  static std::vector<Way> Both(const std::string& a, const std::string& b) { return {{a, b}, {b, a}}; }

  // Nothing gets through these ways until then. `felt` runs once, as soon as anything was to.
  void Add(std::vector<Way> ways, absl::Time until, std::function<void()> felt) {
    cuts_.push_back({.ways = std::move(ways), .until = until, .felt = std::move(felt)});
    latest_ = std::max(latest_, until);
  }

  // When something that is at hand `now` can get through.
  absl::Time Free(absl::string_view from, absl::string_view to, absl::Time now) {
    if (now >= latest_) return now;
    absl::Time free = now;
    for (Cut& cut : cuts_) {
      if (now >= cut.until || !cut.On(from, to)) continue;
      free = std::max(free, cut.until);
      if (const auto felt = std::exchange(cut.felt, nullptr)) felt();
    }
    return free;
  }
  bool Closed(absl::string_view from, absl::string_view to, absl::Time now) {
    return Free(from, to, now) > now;
  }

 private:
  struct Cut {
    std::vector<Way> ways;
    absl::Time until;
    std::function<void()> felt;  // empty: it has run

    bool On(absl::string_view from, absl::string_view to) const {
      return std::any_of(ways.begin(), ways.end(),
                         [&](const Way& way) { return way.first == from && way.second == to; });
    }
  };

  std::vector<Cut> cuts_;
  absl::Time latest_ = absl::InfinitePast();  // until which there are any
};

}  // namespace paceline::sim
