#include "libs/wire/work_items.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/base/test_util/status_matchers.h"

namespace paceline::wire {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

v1::WorkSpec Spec(uint64_t examples, uint64_t per_item, uint64_t passes) {
  v1::WorkSpec spec;
  spec.set_examples(examples);
  spec.set_per_item(per_item);
  spec.set_passes(passes);
  return spec;
}

TEST(WorkItemsTest, ItemsCoverEveryExampleOfEveryPassOnce) {
  for (const auto& spec : {Spec(10, 3, 2), Spec(9, 3, 1), Spec(1, 5, 3), Spec(7, 1, 1)}) {
    ASSERT_THAT(CheckWorkSpec(spec), IsOk());
    std::map<std::pair<uint64_t, uint64_t>, int> seen;
    for (uint64_t item = 0; item < ItemsOf(spec); ++item) {
      const WorkRange range = RangeOf(spec, item);
      EXPECT_LT(range.begin, range.end);
      for (uint64_t e = range.begin; e < range.end; ++e) seen[{range.pass, e}] += 1;
    }
    EXPECT_EQ(seen.size(), spec.examples() * spec.passes());
    for (const auto& [example, times] : seen) EXPECT_EQ(times, 1);
  }
}

TEST(WorkItemsTest, ASpecIsRefusedByField) {
  EXPECT_THAT(CheckWorkSpec(Spec(0, 1, 1)), StatusIs(StatusCode::kInvalidArgument, HasSubstr("examples: 0")));
  EXPECT_THAT(CheckWorkSpec(Spec(1, 0, 1)), StatusIs(StatusCode::kInvalidArgument, HasSubstr("per_item: 0")));
  EXPECT_THAT(CheckWorkSpec(Spec(1, 1, 0)), StatusIs(StatusCode::kInvalidArgument, HasSubstr("passes: 0")));
  EXPECT_THAT(CheckWorkSpec(Spec(uint64_t{1} << 40, 1, uint64_t{1} << 20)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("passes")));
  EXPECT_THAT(CheckWorkSpec(Spec(UINT64_MAX, UINT64_MAX, UINT64_MAX)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("examples")));
}

TEST(WorkItemsTest, NeighboursMakeOneEntryAndComeBack) {
  const v1::WorkSpec spec = Spec(100, 10, 2);
  std::map<uint64_t, HeldItem> items;
  for (const uint64_t item : {3, 4, 5, 9, 10, 11, 19}) items[item] = {.mark = RangeOf(spec, item).begin};
  items[4].begun = true;
  items[10].mark = 7;  // of an item that begins at example 0
  const WorkItemsField field = ToItems(spec, items);
  EXPECT_EQ(field.size(), 7);  // 3 | 4 | 5 | 9 | 10 | 11 | 19
  EXPECT_THAT(CheckItems(spec, "held", field, 7), IsOk());
  EXPECT_EQ(FromItems(spec, field), items);
  items.erase(4);
  items.erase(10);
  items[6] = {.mark = 60};
  EXPECT_EQ(ToItems(spec, items).size(), 5);  // 3 | 5, 6 | 9 | 11 | 19
  EXPECT_EQ(FromItems(spec, ToItems(spec, items)), items);
}

TEST(WorkItemsTest, WhatCannotBeIsRefused) {
  const v1::WorkSpec spec = Spec(100, 10, 2);
  const auto check = [&](uint64_t first, uint64_t count, uint64_t mark) {
    WorkItemsField field;
    v1::WorkItems& run = *field.Add();
    run.set_first(first);
    run.set_count(count);
    run.set_mark(mark);
    return CheckItems(spec, "begun", field, 10);
  };
  EXPECT_THAT(check(19, 1, 100), IsOk());
  EXPECT_THAT(check(19, 2, 0), StatusIs(StatusCode::kInvalidArgument, HasSubstr("the queue has 20")));
  EXPECT_THAT(check(3, 0, 0), StatusIs(StatusCode::kInvalidArgument, HasSubstr("0 items")));
  EXPECT_THAT(check(1, UINT64_MAX, 0), StatusIs(StatusCode::kInvalidArgument, HasSubstr("the queue has 20")));
  EXPECT_THAT(check(0, 11, 0), StatusIs(StatusCode::kInvalidArgument, HasSubstr("more than 10 items")));
  EXPECT_THAT(check(3, 1, 41), StatusIs(StatusCode::kInvalidArgument, HasSubstr("from 30 to 40")));
  EXPECT_THAT(check(3, 1, 29), StatusIs(StatusCode::kInvalidArgument, HasSubstr("from 30 to 40")));
  EXPECT_THAT(check(3, 2, 35), StatusIs(StatusCode::kInvalidArgument, HasSubstr("mark 35")));
}

}  // namespace
}  // namespace paceline::wire
