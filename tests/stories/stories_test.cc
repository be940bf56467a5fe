// Each file beside this one is a story: comments, commands, and below each command what came of it, indented
// by two blanks. With PACELINE_REWRITE_STORIES=1 (scripts/stories --rewrite) what comes of the commands is
// written to the files instead of compared. Commands, which commands.cc carries out:
//
//   quietly COMMAND …                  nothing of it is told, and time is counted from its end
//   cluster SHARDS REPLICAS            shards a, b, …, of which a has the first epoch; with the replicas
//   wanted open CLIENT JOB                    the client opens a session table CLIENT NAME [new|aggregated]
//   it opens a table, or creates one join CLIENT …                      they become workers together push
//   CLIENT TABLE KEY VALUE        in one part, to be added send-again CLIENT                  what is not
//   committed goes to the primary once more tick CLIENT [again]                its clock grows by one, and it
//   says so; or it only says so once more read CLIENT TABLE KEY [CLOCK]      with all updates of smaller
//   clocks hold X Y                           messages from X to Y wait on their way, until let-go … all
//   arrive that wait cut X Y                            messages between X and Y are lost, until mend … all
//   arrive again kill SHARD, start SHARD            its process ends; a new one joins pass MILLISECONDS
//   [beacons]        time passes; with the beacons told hand-over SHARD                    an operator wants
//   it to be primary of nothing snapshot JOB, restore SNAPSHOT JOB an operator's too state what every member
//   has
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/stories/cluster.h"

namespace paceline::stories {
namespace {

// The story as it should be told.
std::string Told(std::istream& story) {
  Cluster cluster;
  std::string told, line;
  while (std::getline(story, line)) {
    if (line.starts_with("  ")) continue;  // what came of it before
    told += line + "\n";
    if (line.empty() || line.starts_with("#")) continue;
    for (const absl::string_view what : absl::StrSplit(cluster.Run(line), '\n', absl::SkipEmpty())) {
      absl::StrAppend(&told, "  ", what, "\n");
    }
  }
  return told;
}

class StoriesTest : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(StoriesTest, IsToldAsItHappens) {
  std::stringstream written;
  written << std::ifstream(GetParam()).rdbuf();
  ASSERT_FALSE(written.str().empty()) << GetParam();
  const std::string told = Told(written);
  if (std::getenv("PACELINE_REWRITE_STORIES") != nullptr) {
    std::ofstream(GetParam()) << told;
  } else {
    EXPECT_EQ(told, written.str())
        << "if that is what should happen: scripts/stories --rewrite, and read the difference";
  }
}

std::vector<std::filesystem::path> Stories() {
  std::vector<std::filesystem::path> stories;
  for (const auto& file : std::filesystem::directory_iterator(PACELINE_STORIES)) {
    if (file.path().extension() == ".txt" && file.path().stem() != "CMakeLists")
      stories.push_back(file.path());
  }
  std::sort(stories.begin(), stories.end());
  return stories;
}

INSTANTIATE_TEST_SUITE_P(All, StoriesTest, ::testing::ValuesIn(Stories()),
                         [](const auto& story) { return story.param.stem().string(); });

}  // namespace
}  // namespace paceline::stories
