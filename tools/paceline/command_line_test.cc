#include "tools/paceline/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::tool {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ClosestTest, FindsWhatAFewSlipsAwayIs) {
  const std::vector<std::string> words = {"status", "up", "job", "snapshot", "--json"};
  EXPECT_EQ(Closest("statsu", words), "status");
  EXPECT_EQ(Closest("stats", words), "status");
  EXPECT_EQ(Closest("snapsot", words), "snapshot");
  EXPECT_EQ(Closest("--jsno", words), "--json");
  EXPECT_EQ(Closest("jbo", words), "job");
  EXPECT_EQ(Closest("frobnicate", words), "");
  EXPECT_EQ(Closest("", words), "");
}

struct CommandLineTest : ::testing::Test {
  CommandLineTest() : app("Test", "paceline") {
    app.require_subcommand(0, 1);
    CLI::App* job = app.add_subcommand("job", "Jobs");
    job->require_subcommand(1);
    job->add_subcommand("list", "List them")->add_flag("--json", json, "As JSON");
    CLI::App* up = app.add_subcommand("up", "Run");
    up->add_option("--shards", shards, "How many");
    up->add_option_group("when", "")->add_flag("--off", json, "Not at all");
  }
  std::string Said(const std::string& line) {
    try {
      app.parse(line);
    } catch (const CLI::ParseError&) {
      return DidYouMean(app);
    }
    return "parsed";
  }
  CLI::App app;
  bool json = false;
  int shards = 0;
};

TEST_F(CommandLineTest, AMisspeltWordIsComparedWithWhatItsCommandHas) {
  EXPECT_EQ(Said("jop"), "did you mean `job`?");
  EXPECT_EQ(Said("job lst"), "did you mean `list`?");
  EXPECT_EQ(Said("job list --jsn"), "did you mean `--json`?");
  EXPECT_EQ(Said("up --shard 3"), "did you mean `--shards`?");
  EXPECT_EQ(Said("up --shard=3"), "did you mean `--shards`?");
  EXPECT_EQ(Said("up --of"), "did you mean `--off`?");
  EXPECT_EQ(Said("frobnicate"), "");
  EXPECT_EQ(Said("up"), "parsed");
}

TEST_F(CommandLineTest, TheScriptHasEveryCommandWithItsOwnWords) {
  const std::string script = BashCompletion(app);
  EXPECT_THAT(script, HasSubstr("' job'|' job list'|' up') command="));
  EXPECT_THAT(script, HasSubstr("'') words='job up --help' ;;\n"));
  EXPECT_THAT(script, HasSubstr("' job list') words='--help --json' ;;\n"));
  EXPECT_THAT(script, HasSubstr("' up') words='--help --shards --off' ;;\n"));
  EXPECT_THAT(script, Not(HasSubstr("when")));
}

}  // namespace
}  // namespace paceline::tool
