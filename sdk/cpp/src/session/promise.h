#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <variant>

#include "libs/base/ids.h"
#include "paceline/table_schema.h"

namespace paceline::sdk {

// The meaning of a consistency model: everything that the client does for a model follows from these fields.
// A new model is its struct in paceline/table_schema.h and a PromiseOf here.
struct Promise {
  const char* name;

  // -- reads of workers --
  // A read of a worker at clock c waits until it holds all updates of clocks < c − staleness, and may be
  // answered from the cache. nullopt: it takes the newest values, does not wait, and is always fetched.
  std::optional<Clock> staleness;
  bool adaptive = false;  // that is the largest: the bound in force is told (TableChanges)
  bool exact = false;     // nor does it hold any of clock c or a later one; takes an aggregated table
  // A worker that has to wait does so until it could read at this staleness. nullopt: it waits no longer than
  // it must.
  std::optional<Clock> catch_up = {};

  // -- the client's own pushes --
  bool own_fetched = false;  // rows that are fetched hold all that were made before
  bool own_cached = true;    // rows from the cache do

  bool refresh = false;  // asks which cached rows have changed, instead of fetching those that are too old
  // Is told which cached rows have changed, at every so many advances of the min clock. 0: it is not.
  uint32_t told_every = 0;
  uint64_t told_bytes = 0;  // … and brought at most so many bytes of them each time; 0: all

  // -- values --
  // Pushes wait until, in each row, what not every reader of the table has seen of this client's sums up to
  // no more than this, or is a single update. Its reads keep others' bounds. nullopt: neither.
  std::optional<double> value_bound = {};
  bool bound_decays = false;  // with the square root of the worker's clocks
};

inline Promise PromiseOf(const Ssp& ssp) {
  return {.name = "Ssp",
          .staleness = ssp.staleness,
          .adaptive = ssp.adaptive && ssp.staleness > 1,
          .catch_up = ssp.catch_up,
          .own_fetched = true,
          .own_cached = ssp.read_my_writes,
          .refresh = ssp.refresh};
}
inline Promise PromiseOf(const Asp&) {
  return {.name = "Asp", .staleness = std::nullopt};
}
inline Promise PromiseOf(const Bsp&) {
  return {.name = "Bsp", .staleness = 0, .exact = true};
}
inline Promise PromiseOf(const Essp& essp) {
  const auto half = static_cast<uint32_t>(std::min<uint64_t>(essp.staleness, UINT16_MAX) + 1) / 2;
  return {.name = "Essp",
          .staleness = essp.staleness,
          .own_fetched = true,
          .own_cached = essp.read_my_writes,
          .told_every = std::max<uint32_t>(essp.every.value_or(half), 1),
          .told_bytes = essp.budget_bytes};
}
inline Promise PromiseOf(const Vap& vap) {
  return {.name = "Vap",
          .staleness = std::nullopt,
          .own_fetched = true,
          .value_bound = vap.v,
          .bound_decays = vap.decay};
}
inline Promise PromiseOf(const Consistency& consistency) {
  return std::visit([](const auto& model) { return PromiseOf(model); }, consistency);
}
inline bool IsBounded(const Consistency& consistency) {
  return PromiseOf(consistency).value_bound.has_value();
}

}  // namespace paceline::sdk
