#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace paceline::sim {

// Temporary partitions of the network between hosts, each direction separately: nothing gets through. Frames
// on a stream wait, as TCP would send them again, unless the stream breaks meanwhile; calls and their answers
// are lost.
class Partitions {
 public:
  // From one host to another, by name.
  using Way = std::pair<std::string, std::string>;
  static std::vector<Way> Both(const std::string& a, const std::string& b) { return {{a, b}, {b, a}}; }

  // Nothing gets through `ways` before `until`. `felt` runs once, when the cut holds something up for the
  // first time.
  void Add(std::vector<Way> ways, absl::Time until, std::function<void()> felt) {
    cuts_.push_back({.ways = std::move(ways), .until = until, .felt = std::move(felt)});
    latest_ = std::max(latest_, until);
  }

  // The time at which something that is sent `now` gets through.
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
  absl::Time latest_ = absl::InfinitePast();  // the end of the last cut
};

}  // namespace paceline::sim
