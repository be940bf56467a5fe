#include "libs/rpc/status.h"

#include <gtest/gtest.h>

namespace paceline::rpc {
namespace {

constexpr char kRefused[] =
    "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:7070: Failed to connect to "
    "remote "
    "host: Connection refused";

TEST(StatusTest, AFailedConnectionKeepsTheSystemsWords) {
  const absl::Status status = FromGrpc({grpc::StatusCode::UNAVAILABLE, kRefused}, "127.0.0.1:7070");
  EXPECT_EQ(status, absl::UnavailableError("Connection refused"));
}

TEST(StatusTest, AnAddressThatWasNotAskedForIsNamed) {
  const grpc::Status refused(grpc::StatusCode::UNAVAILABLE, kRefused);
  EXPECT_EQ(FromGrpc(refused, "localhost:7070").message(), "Connection refused (127.0.0.1:7070)");
  EXPECT_EQ(FromGrpc(refused).message(), "Connection refused (127.0.0.1:7070)");
}

TEST(StatusTest, OtherMessagesStayUnchanged) {
  for (const char* words :
       {"", "not leader", "failed to connect to all addresses",
        "failed to connect to all addresses; last error: UNKNOWN: ipv4:1.2.3.4:5: odd",
        "failed to connect to all addresses; last error: : Failed to connect to remote host: ",
        "Failed to connect to remote host: Connection refused"}) {
    EXPECT_EQ(FromGrpc({grpc::StatusCode::UNAVAILABLE, words}, "1.2.3.4:5").message(), words);
  }
}

}  // namespace
}  // namespace paceline::rpc
