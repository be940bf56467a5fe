#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "libs/history/event.h"
#include "libs/world/random.h"

namespace paceline::history::testing {

// Fills fields with numbers of all sizes, small ones more often.
class RandomFields {
 public:
  explicit RandomFields(world::Random& random) : random_(random) {}

  template <class T>
  void operator()(T& field) {
    if constexpr (std::is_same_v<T, bool>) {
      field = world::Chance(random_, 0.5);
    } else if constexpr (std::is_enum_v<T>) {
      field = static_cast<T>(world::Uniform(random_, 4));
    } else if constexpr (std::is_integral_v<T>) {
      field = static_cast<T>(Number());
    } else {
      field.v = static_cast<decltype(field.v)>(Number());
    }
  }
  void operator()(std::string& field) {
    field.assign(world::Uniform(random_, 40), '\0');
    for (char& c : field) c = static_cast<char>(random_.Next());
  }
  void operator()(std::vector<std::pair<SessionId, PartNumber>>& field) {
    for (uint64_t i = world::Uniform(random_, 30); i > 0; --i) {
      const SessionId session(Number());
      field.emplace_back(session, Number());
    }
  }

 private:
  uint64_t Number() { return random_.Next() >> world::Uniform(random_, 64); }

  world::Random& random_;
};

template <size_t I = 0>
Event RandomEventOf(size_t alternative, world::Random& random) {
  if constexpr (I + 1 < std::variant_size_v<Event>) {
    if (alternative != I) return RandomEventOf<I + 1>(alternative, random);
  }
  std::variant_alternative_t<I, Event> event;
  RandomFields fields(random);
  std::apply([&fields](auto&... field) { (fields(field), ...); },
             std::variant_alternative_t<I, Event>::Fields(event));
  return event;
}

inline Event RandomEvent(world::Random& random) {
  return RandomEventOf(world::Uniform(random, std::variant_size_v<Event>), random);
}

}  // namespace paceline::history::testing
