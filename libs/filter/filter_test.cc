#include "libs/filter/filter.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"

namespace paceline::filter {
namespace {

using paceline::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Refused(absl::string_view text) {
  const auto parsed = ParseFilters(text);
  EXPECT_FALSE(parsed.ok()) << text;
  return std::string(parsed.status().message());
}

TEST(FilterTest, ATextNamesFiltersOfBothDirectionsOrOfOne) {
  const auto parsed = ParseFilters("keys, delta,push:int8,pull:f16,zstd");
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(ToText(parsed->push), "keys,delta,int8,zstd");
  EXPECT_EQ(ToText(parsed->pull), "keys,delta,f16,zstd");
  EXPECT_EQ(ParseFilters("").value(), LinkFilters());
}

TEST(FilterTest, AWrongTextIsNamed) {
  EXPECT_THAT(Refused("keys,gzip"), HasSubstr("'gzip'; expected one of keys, delta"));
  EXPECT_THAT(Refused("push:"), HasSubstr("'push:'"));
  EXPECT_THAT(Refused("f16,int8"), HasSubstr("at most one of f16, bf16 and int8"));
  EXPECT_THAT(Refused("lz4,pull:zstd"), HasSubstr("at most one of lz4 and zstd"));
  EXPECT_THAT(Refused("a\nb"), HasSubstr("a\\x0ab"));
}

TEST(FilterTest, WhatOneWroteAnotherReads) {
  for (uint32_t bits = 0; bits < 1u << kFilters; ++bits) {
    FilterSet set;
    for (uint32_t i = 0; i < kFilters; ++i) {
      if ((bits >> i & 1) != 0) set.Add(static_cast<Filter>(i + 1));
    }
    EXPECT_EQ(KnownOf(set.Numbers()), set);
    EXPECT_EQ(AppliedOf(set.Numbers(), FilterSet::All()).ok(), set.Check().ok());
    if (set.Check().ok()) {
      EXPECT_EQ(ParseFilters(ToText(set))->push, set);
    }
  }
  EXPECT_EQ(KnownOf({2, 900, 6}), FilterSet({Filter::kDelta, Filter::kLz4}));
}

TEST(FilterTest, OnlyAgreedFiltersAreApplied) {
  const FilterSet agreed = {Filter::kKeys, Filter::kDelta};
  EXPECT_THAT(AppliedOf({1, 2}, agreed), IsOk());
  EXPECT_THAT(AppliedOf({6}, agreed).status().message(), HasSubstr("6 is unknown, or was not agreed"));
  EXPECT_THAT(AppliedOf({0}, agreed).status().message(), HasSubstr("0 is unknown"));
  EXPECT_THAT(AppliedOf({2, 1}, agreed).status().message(), HasSubstr("ascending"));
  EXPECT_THAT(AppliedOf({1, 1}, agreed).status().message(), HasSubstr("ascending"));
}

}  // namespace
}  // namespace paceline::filter
