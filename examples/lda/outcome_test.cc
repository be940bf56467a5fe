#include "examples/lda/outcome.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace paceline::examples {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

LdaOutcome Sample() {
  LdaOutcome outcome;
  outcome.perplexity = 2000;
  outcome.reference_perplexity = 1990;
  outcome.unigram_perplexity = 4000;
  outcome.reference_seconds = 0.5;
  outcome.reference_curve = {{.examples = 500, .seconds = 0.5, .loss = 7.5}};
  outcome.tokens = 500;
  outcome.totals.examples = 1000;
  outcome.totals.seconds = 2;
  return outcome;
}

TEST(LdaOutcomeTest, Json) {
  const nlohmann::json json = nlohmann::json::parse(OutcomeJson(LdaOptions(), Sample()));
  EXPECT_EQ(json["perplexity"], 2000);
  EXPECT_EQ(json["reference_perplexity"], 1990);
  EXPECT_EQ(json["unigram_perplexity"], 4000);
  EXPECT_EQ(json["examples_per_second"], 500);
  EXPECT_EQ(json["reference_curve"][0]["loss"], 7.5);
  EXPECT_TRUE(json.contains("curve"));
}

TEST(LdaOutcomeTest, SaysWhatWasCountedAmiss) {
  LdaOutcome outcome = Sample();
  EXPECT_FALSE(nlohmann::json::parse(OutcomeJson(LdaOptions(), outcome)).contains("tokens_repaired"));
  outcome.tokens_repaired = 0;
  EXPECT_EQ(nlohmann::json::parse(OutcomeJson(LdaOptions(), outcome))["tokens_repaired"], 0);
  EXPECT_THAT(FormatOutcome(LdaOptions(), outcome), Not(HasSubstr("killed")));
  outcome.tokens_repaired = 12;
  EXPECT_THAT(FormatOutcome(LdaOptions(), outcome), HasSubstr("12 of 500 tokens were counted amiss"));
}

TEST(LdaOutcomeTest, ReportHasBothColumns) {
  LdaOutcome outcome = Sample();
  const std::string text = FormatOutcome(LdaOptions(), outcome);
  EXPECT_THAT(text, HasSubstr("held-out perplexity         2000.0        1990.0\n"));
  EXPECT_THAT(text, HasSubstr("tokens/s                       500         2,000\n"));
  EXPECT_THAT(text, Not(HasSubstr("above that of one process")));
  outcome.perplexity = 2200;
  EXPECT_THAT(FormatOutcome(LdaOptions(), outcome),
              HasSubstr("perplexity is 11 % above that of one process"));
}

}  // namespace
}  // namespace paceline::examples
