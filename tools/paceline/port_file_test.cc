#include "tools/paceline/port_file.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <fstream>

namespace paceline::tool {
namespace {

class PortFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = ::testing::TempDir() + "/port_file_test-XXXXXX";
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    folder_ = path;
  }
  ~PortFileTest() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }
  static bool Changed(const PortFile& file) {
    pollfd waited = {.fd = file.changes(), .events = POLLIN, .revents = 0};
    return poll(&waited, 1, 0) == 1;
  }

  std::filesystem::path folder_;
};

TEST_F(PortFileTest, GivesTheAddressOnceItIsWritten) {
  Write("port", "127.0.0.1:1\n");  // of an earlier start
  absl::StatusOr<PortFile> file = PortFile::Expect(folder_ / "port");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->Address(), std::nullopt);
  EXPECT_FALSE(Changed(*file));

  Write("port.part", "127.0.0.1:4001\n");
  EXPECT_EQ(file->Address(), std::nullopt);
  std::filesystem::rename(folder_ / "port.part", folder_ / "port");
  EXPECT_TRUE(Changed(*file));
  EXPECT_EQ(file->Address(), "127.0.0.1:4001");
}

TEST_F(PortFileTest, WaitsForTheEndOfTheLine) {
  absl::StatusOr<PortFile> file = PortFile::Expect(folder_ / "port");
  ASSERT_TRUE(file.ok()) << file.status();
  Write("port", "127.0.0.1:40");
  EXPECT_EQ(file->Address(), std::nullopt);
  Write("port", "127.0.0.1:4001\n");
  EXPECT_TRUE(Changed(*file));
  EXPECT_EQ(file->Address(), "127.0.0.1:4001");
}

TEST_F(PortFileTest, NeedsItsFolder) {
  EXPECT_FALSE(PortFile::Expect(folder_ / "nowhere" / "port").ok());
}

}  // namespace
}  // namespace paceline::tool
