#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/base/test_util/status_matchers.h"
#include "paceline/push_filter.h"
#include "sdk/cpp/src/push/filter/check.h"

namespace paceline::sdk {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kRefused = absl::StatusCode::kFailedPrecondition;

TEST(ParsePushFilterTest, ReadsWhatItWrites) {
  for (const char* text : {"", "top-k:0.1", "skip:0.5", "significant:0.01", "significant:2/sqrt", "f16",
                           "bf16", "top-k:0.25,int8", "skip:0,f16"}) {
    const absl::StatusOr<PushFilter> filter = ParsePushFilter(text);
    ASSERT_THAT(filter, IsOk()) << text;
    EXPECT_EQ(ToString(*filter), text);
    EXPECT_EQ(filter->active(), *text != '\0');
  }
  EXPECT_EQ(ParsePushFilter(" int8 , top-k:1 ").value(),
            (PushFilter{.top_k = 1, .precision = PushPrecision::kInt8}));
  EXPECT_EQ(ParsePushFilter("significant:3/sqrt").value(), (PushFilter{.significant = 3, .decays = true}));
}

TEST(ParsePushFilterTest, NamesWhatIsWrong) {
  for (const char* text : {"top-k", "top-k:", "top-k:0", "top-k:1.5", "top-k:x", "top-k:nan", "skip:1",
                           "skip:-0.1", "significant:0", "significant:inf", "significant:/sqrt", "int4",
                           "f16,int8", "top-k:0.1,skip:0.5", "int8,", "int8:3", "top-k:0.1/sqrt"}) {
    EXPECT_THAT(ParsePushFilter(text).status(), StatusIs(kInvalid, HasSubstr("push filter: '"))) << text;
  }
}

TEST(ParsePushFilterTest, KnowsItsNames) {
  for (const char* word : {"top-k:0.1", "top-k", "skip:2", "significant:1/sqrt", "f16", "bf16", "int8"}) {
    EXPECT_TRUE(IsPushFilter(word)) << word;
  }
  for (const char* word : {"", "lz4", "kkt:0.1", "top", "int88"}) EXPECT_FALSE(IsPushFilter(word)) << word;
}

table::Schema Of(const Rule& rule) {
  table::Schema schema;
  schema.rule = rule;
  return schema;
}

absl::Status Check(const PushFilter& filter, const table::Schema& schema,
                   const Consistency& consistency = Ssp{}) {
  return CheckPushFilter(filter, consistency, schema);
}

TEST(CheckPushFilterTest, WhereWhatWaitsWouldNotBeTheSameIsRefused) {
  const PushFilter top{.top_k = 0.1}, rounded{.precision = PushPrecision::kInt8};
  for (const Rule& rule : {Rule(Sgd{}), Rule(Adagrad{}), Rule(FtrlProximal{}), Rule(ProximalSgd{}),
                           Rule(Expression{.params = {{"lr", 0.1f}}, .code = "w = w - lr*g"})}) {
    EXPECT_THAT(Check(top, Of(rule)), IsOk()) << table::NameOfRule(rule);
    EXPECT_THAT(Check(rounded, Of(rule)), IsOk()) << table::NameOfRule(rule);
  }
  EXPECT_THAT(Check(top, Of(Add{})), IsOk()) << "whole updates, later";
  EXPECT_THAT(Check(rounded, Of(Add{})), StatusIs(kRefused, HasSubstr("a count is not rounded")));
  EXPECT_THAT(Check(top, Of(Assign{})), StatusIs(kRefused, HasSubstr("assign")));
  for (const Rule& rule : {Rule(Momentum{}), Rule(Nesterov{}), Rule(RmsProp{}), Rule(Adam{}),
                           Rule(Expression{.code = "w = w - g/step"})}) {
    EXPECT_THAT(Check(top, Of(rule)), StatusIs(kRefused, HasSubstr("how often a row is pushed")))
        << table::NameOfRule(rule);
  }
  table::Schema folded = Of(Sgd{});
  folded.aggregated = true;
  EXPECT_THAT(Check(top, folded), StatusIs(kRefused, HasSubstr("aggregated")));
  EXPECT_THAT(Check(top, folded, Bsp{}), StatusIs(kRefused, HasSubstr("Bsp")));
  EXPECT_THAT(Check(top, Of(Sgd{}), Vap{.v = 1}), StatusIs(kRefused, HasSubstr("Vap")));
  for (const Consistency& consistency : {Consistency(Ssp{}), Consistency(Asp{}), Consistency(Essp{})}) {
    EXPECT_THAT(Check(top, Of(Sgd{}), consistency), IsOk());
  }
}

TEST(CheckPushFilterTest, NumbersThatProgramsSetAreChecked) {
  const table::Schema sgd = Of(Sgd{});
  EXPECT_THAT(Check({.top_k = 0}, sgd), StatusIs(kInvalid, HasSubstr("top_k")));
  EXPECT_THAT(Check({.skip = 1}, sgd), StatusIs(kInvalid, HasSubstr("skip")));
  EXPECT_THAT(Check({.significant = -1}, sgd), StatusIs(kInvalid, HasSubstr("significant")));
  EXPECT_THAT(Check({.top_k = 0.1, .skip = 0.1}, sgd), StatusIs(kInvalid, HasSubstr("one of them")));
  EXPECT_THAT(Check({.decays = true, .precision = PushPrecision::kF16}, sgd),
              StatusIs(kInvalid, HasSubstr("decays")));
}

}  // namespace
}  // namespace paceline::sdk
