#pragma once

#include <algorithm>
#include <string>

#include "absl/time/time.h"
#include "libs/sim/scheduler.h"
#include "libs/world/random.h"

namespace paceline::sim {

// One process as the network sees it. While it is paused nothing reaches it; messages that arrive meanwhile
// are delivered afterwards, in order. While its links are clogged every message to or from it takes longer.
struct Host {
  std::string name = {};
  bool up = true;
  absl::Time paused_until = absl::InfinitePast();
  absl::Time clogged_until = absl::InfinitePast();
  absl::Duration clog = absl::ZeroDuration();

  bool Paused(absl::Time now) const { return now < paused_until; }
};

// The latency of messages: usually short, now and then long, drawn for each.
struct Latency {
  absl::Duration shortest = absl::Microseconds(50);
  absl::Duration usual = absl::Milliseconds(2);  // evenly between shortest and this
  double slow = 0.01;                            // share of messages that take up to `slowest` instead
  absl::Duration slowest = absl::Milliseconds(200);

  absl::Duration Draw(world::Random& random, const Host& from, const Host& to, absl::Time now) const {
    const absl::Duration upto = world::Chance(random, slow) ? slowest : usual;
    absl::Duration drawn = shortest + (upto - shortest) * world::UnitInterval(random);
    for (const Host* host : {&from, &to}) {
      if (now < host->clogged_until) drawn += host->clog * world::UnitInterval(random);
    }
    return drawn;
  }
};

}  // namespace paceline::sim
