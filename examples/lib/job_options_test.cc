#include "examples/lib/job_options.h"

#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::examples {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::StatusOr<JobOptions> Parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "example");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  JobOptions options;
  CLI::App app("about", "example");
  AddJobOptions(&app, "a batch of every worker", &options);
  AddWorkOptions(&app, &options);
  AddLinkFilterOption(&app, &options);
  if (ParseArguments(&app, static_cast<int>(argv.size()), argv.data()).has_value()) {
    return absl::UnknownError("the command line was refused");
  }
  if (absl::Status s = CompleteJobOptions("example", &options); !s.ok()) return s;
  return options;
}

JobOptions Parsed(std::vector<std::string> arguments) {
  const absl::StatusOr<JobOptions> options = Parse(std::move(arguments));
  EXPECT_TRUE(options.ok()) << options.status();
  return options.ok() ? *options : JobOptions();
}

TEST(ParseModelTest, ModelNames) {
  EXPECT_EQ(std::get<Ssp>(*ParseModel("ssp:0")).staleness, 0u);
  EXPECT_EQ(std::get<Ssp>(*ParseModel("ssp:12")).staleness, 12u);
  EXPECT_EQ(std::get<Ssp>(*ParseModel("ssp:12")).catch_up, 6u);
  EXPECT_FALSE(std::get<Ssp>(*ParseModel("ssp:12")).adaptive);
  EXPECT_TRUE(std::get<Ssp>(*ParseModel("ssp:auto")).adaptive);
  EXPECT_EQ(std::get<Ssp>(*ParseModel("ssp:auto")).staleness, 16u);
  EXPECT_TRUE(std::get<Ssp>(*ParseModel("ssp:auto:8")).adaptive);
  EXPECT_EQ(std::get<Ssp>(*ParseModel("ssp:auto:8")).staleness, 8u);
  EXPECT_EQ(std::get<Ssp>(*ParseModel("ssp:auto:8")).catch_up, 4u);
  EXPECT_EQ(std::get<Essp>(*ParseModel("essp:4")).staleness, 4u);
  EXPECT_EQ(std::get<Essp>(*ParseModel("essp:4")).budget_bytes, 0u);
  EXPECT_EQ(std::get<Essp>(*ParseModel("essp:4/65536")).staleness, 4u);
  EXPECT_EQ(std::get<Essp>(*ParseModel("essp:4/65536")).budget_bytes, 65536u);
  EXPECT_EQ(std::get<Ssp>(*ParseModel("delay:4")).staleness, 4u);
  EXPECT_FALSE(std::get<Ssp>(*ParseModel("delay:4")).catch_up.has_value());
  EXPECT_EQ(std::get<Vap>(*ParseModel("vap:0.5")).v, 0.5);
  EXPECT_FALSE(std::get<Vap>(*ParseModel("vap:0.5")).decay);
  EXPECT_EQ(std::get<Vap>(*ParseModel("vap:3/sqrt")).v, 3);
  EXPECT_TRUE(std::get<Vap>(*ParseModel("vap:3/sqrt")).decay);
  EXPECT_TRUE(std::holds_alternative<Asp>(*ParseModel("asp")));
  EXPECT_TRUE(std::holds_alternative<Bsp>(*ParseModel("bsp")));
  for (const char* wrong : {"",           "ssp",       "ssp:",          "ssp:-1",   "ssp:2x",    "SSP:2",
                            "essp:",      "essp:x",    "delay:",        "delay:-1", "ssp:auto:", "ssp:auto:0",
                            "ssp:auto:x", "ssp:auto8", "ssp:automatic", "vap:",     "vap:0",     "vap:-1",
                            "vap:x",      "vap:inf",   "vap:1/log",     "essp:4/",  "essp:4/0",  "essp:/9"}) {
    EXPECT_EQ(ParseModel(wrong).status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
}

TEST(JobOptionsTest, FiltersOfTheLinkByTheirNames) {
  const JobOptions o = Parsed({"--coordinator", "c:1", "--filters", "keys,push:lz4"});
  EXPECT_TRUE(o.link_filters.push.key_lists);
  EXPECT_EQ(o.link_filters.push.compression, Compression::kLz4);
  EXPECT_EQ(o.link_filters.pull, Filters{.key_lists = true});
  EXPECT_THAT(std::string(Parse({"--coordinator", "c:1", "--filters", "gzip"}).status().message()),
              AllOf(StartsWith("--filters: "), HasSubstr("'gzip'")));
}

TEST(JobOptionsTest, TakesAll) {
  unsetenv("PACELINE_COORDINATOR");
  const JobOptions o = Parsed({"--workers", "3", "--model", "asp", "--seed", "9", "--json", "j",
                               "--coordinator", "c:1", "--timeout", "1.5", "--record", "r", "--trace", "t"});
  EXPECT_EQ(o.workers, 3u);
  EXPECT_TRUE(std::holds_alternative<Asp>(o.consistency));
  EXPECT_EQ(o.seed, 9u);
  EXPECT_EQ(o.json_out, "j");
  EXPECT_EQ(o.record, "r");
  EXPECT_EQ(o.trace_out, "t");
  EXPECT_EQ(o.timeout, absl::Milliseconds(1500));
  EXPECT_EQ(o.worker, -1);
  EXPECT_THAT(o.job, StartsWith("example-"));
  EXPECT_EQ(Parsed({"--coordinator", "c:1"}).timeout, absl::Seconds(60));
}

TEST(JobOptionsTest, TheLastNameOfAJobCounts) {
  const JobOptions o =
      Parsed({"--coordinator", "c:1", "--job", "people's", "--worker", "2", "--job", "parent's"});
  EXPECT_EQ(o.job, "parent's");
  EXPECT_EQ(WorkerClient("example", o).client_name, "example worker 2");
  EXPECT_EQ(WorkerClient("example", o).rank, 2u);
  EXPECT_EQ(ReaderClient("example", o).workers, 0u);
}

TEST(JobOptionsTest, AWorkerThatJoinsTakesAnyRankAndWaitsForNobody) {
  const JobOptions o =
      Parsed({"--coordinator", "c:1", "--job", "j", "--workers", "4", "--work", "queue", "--join"});
  EXPECT_TRUE(o.by_queue());
  EXPECT_EQ(WorkerClient("example", o).workers, 1u);
  EXPECT_FALSE(WorkerClient("example", o).rank.has_value());
  EXPECT_FALSE(Parsed({"--coordinator", "c:1"}).by_queue());
}

TEST(JobOptionsTest, OnlyAQueueCanBeJoinedOrCounted) {
  for (const char* flag : {"--join", "--count-work"}) {
    EXPECT_THAT(std::string(Parse({"--coordinator", "c:1", "--job", "j", flag}).status().message()),
                AllOf(StartsWith(flag), HasSubstr("--work queue")));
  }
  EXPECT_THAT(std::string(Parse({"--coordinator", "c:1", "--work", "queue", "--join"}).status().message()),
              HasSubstr("--job NAME"));
  EXPECT_FALSE(Parse({"--coordinator", "c:1", "--work", "bag"}).ok());
}

TEST(JobOptionsTest, RefusesImpossibleOptions) {
  unsetenv("PACELINE_COORDINATOR");
  EXPECT_THAT(std::string(Parse({}).status().message()), HasSubstr("paceline up --shards 3 -- example"));
  EXPECT_FALSE(Parse({"--coordinator", "c:1", "--workers", "0"}).ok());
  EXPECT_THAT(std::string(Parse({"--coordinator", "c:1", "--model", "sp:2"}).status().message()),
              HasSubstr("'sp:2'"));
  EXPECT_THAT(std::string(Parse({"--coordinator", "c:1", "--json", "/no/such/folder/x"}).status().message()),
              HasSubstr("/no/such/folder"));
}

}  // namespace
}  // namespace paceline::examples
