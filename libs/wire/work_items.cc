#include "libs/wire/work_items.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace paceline::wire {
namespace {

// So that no sum of numbers of examples or items overflows.
constexpr uint64_t kExamplesMax = uint64_t{1} << 48;
constexpr uint64_t kItemsMax = uint64_t{1} << 48;

absl::Status OutOfRange(absl::string_view field, uint64_t value, uint64_t least, uint64_t most) {
  return absl::InvalidArgumentError(
      absl::StrCat("work: ", field, ": ", value, "; expected ", least, " to ", most));
}

}  // namespace

absl::Status CheckWorkSpec(const v1::WorkSpec& spec) {
  if (spec.examples() < 1 || spec.examples() > kExamplesMax)
    return OutOfRange("examples", spec.examples(), 1, kExamplesMax);
  if (spec.per_item() < 1 || spec.per_item() > kExamplesMax)
    return OutOfRange("per_item", spec.per_item(), 1, kExamplesMax);
  const uint64_t passes_max = kItemsMax / ItemsOfPass(spec);
  const uint64_t most = std::min(passes_max, kExamplesMax / spec.examples());
  if (spec.passes() < 1 || spec.passes() > most) return OutOfRange("passes", spec.passes(), 1, most);
  return absl::OkStatus();
}

uint64_t ItemsOfPass(const v1::WorkSpec& spec) {
  return (spec.examples() + spec.per_item() - 1) / spec.per_item();
}

uint64_t ItemsOf(const v1::WorkSpec& spec) {
  return ItemsOfPass(spec) * spec.passes();
}

WorkRange RangeOf(const v1::WorkSpec& spec, uint64_t item) {
  const uint64_t of_pass = ItemsOfPass(spec);
  const uint64_t begin = item % of_pass * spec.per_item();
  return {.pass = item / of_pass, .begin = begin, .end = std::min(begin + spec.per_item(), spec.examples())};
}

WorkItemsField ToItems(const v1::WorkSpec& spec, const std::map<uint64_t, HeldItem>& items) {
  WorkItemsField field;
  for (const auto& [item, held] : items) {
    const bool plain = !held.begun && held.mark == RangeOf(spec, item).begin;
    v1::WorkItems* last = field.empty() ? nullptr : field.Mutable(field.size() - 1);
    const bool follows = plain && last != nullptr && !last->begun() && last->mark() == 0 &&
                         last->first() + last->count() == item;
    if (follows) {
      last->set_count(last->count() + 1);
      continue;
    }
    v1::WorkItems& run = *field.Add();
    run.set_first(item);
    run.set_count(1);
    if (plain) continue;
    run.set_begun(held.begun);
    if (held.mark != RangeOf(spec, item).begin) run.set_mark(held.mark);
  }
  return field;
}

absl::Status CheckItems(const v1::WorkSpec& spec, absl::string_view name, const WorkItemsField& field,
                        uint64_t most) {
  const uint64_t items = ItemsOf(spec);
  uint64_t listed = 0;
  for (const v1::WorkItems& run : field) {
    if (run.count() < 1 || run.first() >= items || run.count() > items - run.first()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": ", run.count(), " items from ", run.first(), " on; the queue has ", items));
    }
    if (run.count() > most - listed) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": more than ", most, " items, as many as a session may hold"));
    }
    listed += run.count();
    const WorkRange range = RangeOf(spec, run.first());
    if (run.mark() == 0 || (run.count() == 1 && run.mark() >= range.begin && run.mark() <= range.end))
      continue;
    return absl::InvalidArgumentError(absl::StrCat(name, ": item ", run.first(), ": mark ", run.mark(),
                                                   "; it is the examples from ", range.begin, " to ",
                                                   range.end));
  }
  return absl::OkStatus();
}

std::map<uint64_t, HeldItem> FromItems(const v1::WorkSpec& spec, const WorkItemsField& field) {
  std::map<uint64_t, HeldItem> items;
  for (const v1::WorkItems& run : field) {
    for (uint64_t item = run.first(); item < run.first() + run.count(); ++item) {
      items[item] = {.mark = std::max(run.mark(), RangeOf(spec, item).begin), .begun = run.begun()};
    }
  }
  return items;
}

}  // namespace paceline::wire
