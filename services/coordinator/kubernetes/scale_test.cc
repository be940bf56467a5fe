#include "services/coordinator/kubernetes/scale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "libs/base/test_util/status_matchers.h"

namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

absl::StatusOr<uint32_t> Read(long http_status, const std::string& body) {
  return ReplicasOf(http_status, body, "ml", "ps-shard");
}

TEST(ReplicasTest, AreThoseThatTheSpecWants) {
  const auto wanted = Read(200, R"({"kind":"Scale","spec":{"replicas":3},"status":{"replicas":5}})");
  ASSERT_THAT(wanted, IsOk());
  EXPECT_EQ(*wanted, 3u);
  ASSERT_THAT(Read(200, R"({"spec":{}})"), IsOk());
  EXPECT_EQ(*Read(200, R"({"spec":{}})"), 0u) << "0 is left out";
}

TEST(ReplicasTest, AMissingRightIsNamedWithTheRole) {
  for (const long status : {401L, 403L}) {
    EXPECT_THAT(Read(status, "{}"),
                StatusIs(StatusCode::kPermissionDenied, HasSubstr("get on statefulsets/scale")));
  }
  EXPECT_THAT(Read(404, "{}"), StatusIs(StatusCode::kNotFound, HasSubstr("ml/ps-shard")));
}

TEST(ReplicasTest, WhatIsNoScaleIsNoNumber) {
  for (const char* body :
       {"", "[]", "{", "{}", R"({"spec":3})", R"({"spec":{"replicas":-1}})", R"({"spec":{"replicas":"3"}})",
        R"({"spec":{"replicas":1.5}})", R"({"spec":{"replicas":4294967297}})"}) {
    EXPECT_THAT(Read(200, body), StatusIs(StatusCode::kUnavailable, HasSubstr("ml/ps-shard"))) << body;
  }
  EXPECT_THAT(Read(500, "{}"), StatusIs(StatusCode::kUnavailable, HasSubstr("500")));
}

TEST(ReadScaleTest, WithoutATokenNobodyIsAsked) {
  EXPECT_THAT(ReadScale({.address = "https://127.0.0.1:1", .account_dir = "/no/such/folder"}, "ml", "ps"),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("/no/such/folder/token")));
}

TEST(ApiOfPodTest, IsFoundInTheEnvironment) {
  unsetenv("KUBERNETES_SERVICE_HOST");
  unsetenv("KUBERNETES_SERVICE_PORT");
  EXPECT_THAT(ApiOfPod("/account"), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("--statefulset")));
  setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1);
  setenv("KUBERNETES_SERVICE_PORT", "443", 1);
  ASSERT_THAT(ApiOfPod("/account"), IsOk());
  EXPECT_EQ(ApiOfPod("/account")->address, "https://10.0.0.1:443");
  setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
  EXPECT_EQ(ApiOfPod("/account")->address, "https://[fd00::1]:443");
}

}  // namespace
}  // namespace paceline::coordinator
