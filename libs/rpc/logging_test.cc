#include "libs/rpc/logging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "libs/base/test_util/status_matchers.h"

namespace paceline::rpc {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::EndsWith;
using ::testing::HasSubstr;

std::string Logged(const std::string& format, const std::string& text) {
  EXPECT_THAT(SetUpLogging(format, "info"), IsOk());
  ::testing::internal::CaptureStderr();
  spdlog::info("heard why=\"{}\"", text);
  return ::testing::internal::GetCapturedStderr();
}

TEST(LoggingTest, UntrustedTextStaysInItsLine) {
  EXPECT_THAT(Logged("text", "a\n2026-01-01T00:00:00.000Z error forged\x1b[2J\xff"),
              EndsWith(" info heard why=\"a\\x0a2026-01-01T00:00:00.000Z error forged\\x1b[2J\\xff\"\n"));
  EXPECT_THAT(Logged("json", "a\n\"}{\x1b\xff"), HasSubstr(R"("message":"heard why=\"a\n\"}{\u001b�\"")"));
}

TEST(LoggingTest, WordsItDoesNotKnowAreNamed) {
  EXPECT_THAT(SetUpLogging("xml", "info"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'xml'")));
  EXPECT_THAT(SetUpLogging("text", "loud"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'loud'")));
}

}  // namespace
}  // namespace paceline::rpc
