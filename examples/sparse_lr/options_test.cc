#include "examples/sparse_lr/options.h"

#include <cstdlib>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::examples {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class OptionsTest : public ::testing::Test {
 protected:
  OptionsTest() {
    unsetenv("PACELINE_COORDINATOR");
    std::ofstream(file_) << "1 1:1\n";
  }
  ~OptionsTest() override { std::remove(file_.c_str()); }

  // `--train` and `--test` are given already.
  std::variant<RunOptions, int> Parse(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"sparse_lr", "--train", file_, "--test", file_});
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    return ParseCommandLine(static_cast<int>(argv.size()), argv.data());
  }
  RunOptions Parsed(std::vector<std::string> arguments) {
    const std::variant<RunOptions, int> result = Parse(std::move(arguments));
    EXPECT_TRUE(std::holds_alternative<RunOptions>(result));
    return std::holds_alternative<RunOptions>(result) ? std::get<RunOptions>(result) : RunOptions();
  }
  // Its message on standard error.
  std::string Refused(std::vector<std::string> arguments) {
    ::testing::internal::CaptureStderr();
    const std::variant<RunOptions, int> result = Parse(std::move(arguments));
    EXPECT_TRUE(std::holds_alternative<int>(result) && std::get<int>(result) == 2);
    return ::testing::internal::GetCapturedStderr();
  }

  const std::string file_ = ::testing::TempDir() + "/options_test.libsvm";
};

TEST_F(OptionsTest, CachedWeightsMayLackTheWorkersOwnPushes) {
  const Ssp ssp = std::get<Ssp>(Parsed({"--coordinator", "c:1", "--model", "ssp:4"}).consistency);
  EXPECT_FALSE(ssp.read_my_writes || ssp.refresh);
  EXPECT_EQ(ssp.catch_up, 2u);
}

TEST_F(OptionsTest, WhatHasChangedIsAskedForIfABoundAllowsIt) {
  const auto refreshing = [](std::string model) {
    return std::vector<std::string>{"--coordinator", "c:1", "--refresh", "--model", std::move(model)};
  };
  EXPECT_TRUE(std::get<Ssp>(Parsed(refreshing("ssp:4")).consistency).refresh);
  EXPECT_TRUE(std::get<Ssp>(Parsed(refreshing("ssp:auto")).consistency).refresh);
  for (const char* model : {"ssp:0", "essp:4", "asp", "bsp"}) {
    EXPECT_THAT(Refused(refreshing(model)), HasSubstr("--refresh: needs --model ssp:S or delay:S")) << model;
  }
}

TEST_F(OptionsTest, UnderBspAllBatchesOfAClockAreOneStep) {
  const Shape shape{.examples = 100, .row_norm = 1};
  const RunOptions bsp =
      Parsed({"--coordinator", "c:1", "--model", "bsp", "--rule", "sgd", "--lr", "0.5", "--workers", "4"});
  const ReferenceOptions reference = ReferenceOf(bsp, shape);
  EXPECT_EQ(reference.sgd_lr, 0.5f);
  EXPECT_EQ(reference.batch_size, 4 * bsp.batch_size);
  const RunOptions ftrl = Parsed({"--coordinator", "c:1", "--model", "bsp"});
  EXPECT_EQ(ftrl.rule, "ftrl");
  EXPECT_EQ(ReferenceOf(ftrl, shape).sgd_lr, std::nullopt);
  const RunOptions ssp = Parsed({"--coordinator", "c:1"});
  EXPECT_EQ(ReferenceOf(ssp, shape).batch_size, ssp.batch_size);
  EXPECT_THAT(Refused({"--coordinator", "c:1", "--rule", "adam"}), HasSubstr("--rule"));
}

TEST_F(OptionsTest, StepsFollowTheDataUnlessTheyAreGiven) {
  const RunOptions o = Parsed({"--coordinator", "c:1", "--workers", "4", "--batch", "16"});
  const FtrlOptions of_unit_rows = FtrlOf(o, {.examples = 1, .row_norm = 1});
  EXPECT_EQ(of_unit_rows.alpha, FtrlOptions().alpha);
  EXPECT_EQ(of_unit_rows.beta, FtrlOptions().beta);
  const FtrlOptions of_long_rows = FtrlOf(o, {.examples = 1, .row_norm = 4});
  EXPECT_FLOAT_EQ(of_long_rows.alpha, FtrlOptions().alpha / 4);
  EXPECT_FLOAT_EQ(of_long_rows.beta, FtrlOptions().beta * 4);
  EXPECT_FLOAT_EQ(SgdStepOf(o, {.examples = 1, .row_norm = 4}), 4.0f / 16 / 64);
  EXPECT_TRUE(o.scale);
  EXPECT_FALSE(Parsed({"--coordinator", "c:1", "--no-scale"}).scale);
}

TEST_F(OptionsTest, TakesAll) {
  const RunOptions o = Parsed(
      {"--workers",   "3",    "--model",       "asp", "--l1",      "0.5", "--epochs", "7", "--batch", "8",
       "--l2",        "0.25", "--alpha",       "2",   "--beta",    "3",   "--seed",   "9", "--json",  "j",
       "--model-out", "m",    "--coordinator", "c:1", "--timeout", "1.5"});
  EXPECT_EQ(o.workers, 3u);
  EXPECT_TRUE(std::holds_alternative<Asp>(o.consistency));
  EXPECT_EQ(o.epochs, 7);
  EXPECT_EQ(o.batch_size, 8u);
  EXPECT_EQ(o.seed, 9u);
  EXPECT_EQ(o.json_out, "j");
  EXPECT_EQ(o.model_out, "m");
  EXPECT_EQ(o.timeout, absl::Milliseconds(1500));
  EXPECT_EQ(o.worker, -1);
  const FtrlOptions ftrl = FtrlOf(o, {.examples = 2, .row_norm = 3});
  EXPECT_EQ(ftrl.alpha, 2.0f);
  EXPECT_EQ(ftrl.beta, 3.0f);
  EXPECT_EQ(ftrl.lambda1, 7.0f);  // 0.5 · 2 examples · 7 epochs
  EXPECT_EQ(ftrl.lambda2, 3.5f);
}

TEST_F(OptionsTest, FiltersAreThoseOfTheModel) {
  const RunOptions o = Parsed({"--coordinator", "c:1", "--filters", "kkt:0.2,top-k:0.5"});
  EXPECT_EQ(o.filter.kkt, 0.2);
  EXPECT_EQ(o.filter.push.top_k, 0.5);
  EXPECT_FALSE(Parsed({"--coordinator", "c:1"}).filter.kkt.has_value());
  EXPECT_THAT(Refused({"--coordinator", "c:1", "--filters", "kkt", "--rule", "sgd"}),
              HasSubstr("--rule ftrl"));
  EXPECT_THAT(Refused({"--coordinator", "c:1", "--filters", "kkt", "--l1", "0"}), HasSubstr("--l1 above 0"));
  EXPECT_THAT(Refused({"--coordinator", "c:1", "--filters", "kkt", "--work", "queue"}),
              HasSubstr("--work split"));
  EXPECT_THAT(Refused({"--coordinator", "c:1", "--filters", "no-such"}), HasSubstr("'no-such'"));
}

TEST_F(OptionsTest, TheCoordinatorComesFromTheEnvironmentUnlessGiven) {
  EXPECT_THAT(Refused({}), HasSubstr("PACELINE_COORDINATOR"));
  setenv("PACELINE_COORDINATOR", "from:1", 1);
  EXPECT_EQ(Parsed({}).coordinator, "from:1");
  EXPECT_EQ(Parsed({"--coordinator", "given:1"}).coordinator, "given:1");
}

TEST_F(OptionsTest, AJobsNameIsItsOwnAndTheLastOneCounts) {
  EXPECT_THAT(Parsed({"--coordinator", "c:1"}).job, StartsWith("sparse_lr-"));
  const RunOptions o =
      Parsed({"--coordinator", "c:1", "--job", "people's", "--worker", "2", "--job", "parent's"});
  EXPECT_EQ(o.job, "parent's");
  EXPECT_EQ(o.worker, 2);
}

TEST_F(OptionsTest, RefusesImpossibleOptions) {
  EXPECT_THAT(Refused({"--coordinator", "c:1", "--workers", "0"}), HasSubstr("--workers"));
  EXPECT_THAT(Refused({"--coordinator", "c:1", "--alpha", "0"}), HasSubstr("--alpha"));
  EXPECT_THAT(Refused({"--coordinator", "c:1", "--json", "/no/such/folder/x"}), HasSubstr("/no/such/folder"));
  EXPECT_THAT(Refused({"--no-such-option"}), HasSubstr("--no-such-option"));
}

}  // namespace
}  // namespace paceline::examples
