#include "sdk/cpp/src/push/filter/check.h"

#include <cmath>
#include <variant>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "sdk/cpp/src/session/promise.h"

namespace paceline::sdk {
namespace {

absl::Status CheckNumbers(const PushFilter& filter) {
  const auto wrong = [](absl::string_view what, double value, absl::string_view expected) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": ", value, "; expected ", expected));
  };
  const int chosen = filter.top_k.has_value() + filter.skip.has_value() + filter.significant.has_value();
  if (chosen > 1) {
    return absl::InvalidArgumentError("top_k, skip, significant: expected one of them at most");
  }
  if (filter.top_k.has_value() && !(*filter.top_k > 0 && *filter.top_k <= 1)) {
    return wrong("top_k", *filter.top_k, "a share above 0 and at most 1");
  }
  if (filter.skip.has_value() && !(*filter.skip >= 0 && *filter.skip < 1)) {
    return wrong("skip", *filter.skip, "a probability of at least 0 and below 1");
  }
  if (filter.significant.has_value() && !(*filter.significant > 0 && std::isfinite(*filter.significant))) {
    return wrong("significant", *filter.significant, "a number above 0");
  }
  if (filter.decays && !filter.significant.has_value()) {
    return absl::InvalidArgumentError("decays: nothing does without `significant`; set that too");
  }
  return absl::OkStatus();
}

// Two updates that are sent as one are one to it.
bool CountsPushes(const Rule& rule) {
  if (const auto* written = std::get_if<Expression>(&rule)) {
    return table::SlotsPerValue(rule) > written->slots.size();  // it has `step`
  }
  return std::holds_alternative<Momentum>(rule) || std::holds_alternative<Nesterov>(rule) ||
         std::holds_alternative<RmsProp>(rule) || std::holds_alternative<Adam>(rule);
}

absl::Status CheckRule(const PushFilter& filter, const Rule& rule) {
  if (std::holds_alternative<Assign>(rule)) {
    return absl::FailedPreconditionError(
        "the table's rule is assign: its last value wins, and the sum of two that wait is neither; push "
        "without a "
        "filter");
  }
  if (CountsPushes(rule)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the table's rule, ", table::NameOfRule(rule),
                     ", goes by how often a row is pushed, and what is held back goes with the row's next "
                     "push as one; use sgd, "
                     "adagrad, ftrl_proximal or proximal_sgd, or push without a filter"));
  }
  if (filter.precision != PushPrecision::kF32 && std::holds_alternative<Add>(rule)) {
    return absl::FailedPreconditionError(
        "the table's rule is add: its rows may be counts, and a count is not rounded; use a filter without "
        "f16, bf16 "
        "and int8, or push the negative of steps to a table of Sgd{.lr = 1}");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPushFilter(const PushFilter& filter, const Consistency& consistency,
                             const table::Schema& schema) {
  ABSL_RETURN_IF_ERROR(CheckNumbers(filter));
  if (schema.aggregated) {
    return absl::FailedPreconditionError(
        absl::StrCat("the table is aggregated", PromiseOf(consistency).exact ? ", as Bsp needs it" : "",
                     ": a clock's fold is of what was pushed in that clock, and what is held back would be "
                     "folded into a later "
                     "one; push without a filter, or use Ssp and a table that is applied on arrival"));
  }
  if (IsBounded(consistency)) {
    return absl::FailedPreconditionError(
        "Vap bounds what was pushed and not seen by all, and what is held back would be beyond its bound; "
        "use Ssp, or "
        "push without a filter");
  }
  return CheckRule(filter, schema.rule);
}

}  // namespace paceline::sdk
