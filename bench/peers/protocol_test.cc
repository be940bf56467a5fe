// Requests and replies over a connection to a server in this process, and Redis' replies in pieces of every
// size.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>

#include "bench/peers/echo.h"
#include "bench/peers/redis_protocol.h"

namespace paceline::bench::peers {
namespace {

Work OfKeys(size_t batch, std::vector<uint64_t> keys) {
  return {.batch = batch, .keys = std::move(keys), .in_file = {}};
}

// Feeds `bytes` in pieces of `size`. Returns the replies that were complete.
size_t Feed(RedisProtocol& protocol, const std::string& bytes, size_t size) {
  size_t replies = 0;
  for (size_t at = 0; at < bytes.size(); at += size) {
    const size_t some = std::min(size, bytes.size() - at);
    const absl::Span<char> room = protocol.Room();
    EXPECT_GE(room.size(), some);
    std::memcpy(room.data(), bytes.data() + at, some);
    const absl::StatusOr<size_t> took = protocol.Took(some);
    EXPECT_TRUE(took.ok()) << took.status();
    if (took.ok()) replies += *took;
  }
  return replies;
}

std::string Bulk(const std::vector<float>& values) {
  std::string out = "$" + std::to_string(values.size() * sizeof(float)) + "\r\n";
  out.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return out + "\r\n";
}

TEST(RedisProtocolTest, RequestsAreCommandsOfTheBatch) {
  const Work one = OfKeys(1, {0x4142434445464748});
  RedisProtocol get(RedisRows::kBinary, Op::kPull, one, 1, 0);
  EXPECT_EQ(get.Request(0), "*2\r\n$3\r\nGET\r\n$8\r\nHGFEDCBA\r\n");
  const Work two =
      OfKeys(2, {0x4141414141414141, 0x4242424242424242, 0x4343434343434343, 0x4444444444444444});
  RedisProtocol mget(RedisRows::kBinary, Op::kPull, two, 1, 0);
  EXPECT_EQ(mget.Request(3), "*3\r\n$4\r\nMGET\r\n$8\r\nCCCCCCCC\r\n$8\r\nDDDDDDDD\r\n");
  RedisProtocol adds(RedisRows::kDecimals, Op::kPush, two, 1, 1);
  EXPECT_EQ(adds.Request(0),
            "*3\r\n$11\r\nINCRBYFLOAT\r\n$8\r\nAAAAAAAA\r\n$1\r\n1\r\n"
            "*3\r\n$11\r\nINCRBYFLOAT\r\n$8\r\nBBBBBBBB\r\n$1\r\n1\r\n");
}

TEST(RedisProtocolTest, RepliesMayComeInPiecesOfAnySize) {
  const Work work = OfKeys(2, {1, 2});
  const std::string reply = "*2\r\n" + Bulk({1, 2}) + Bulk({3, 4});
  for (size_t size = 1; size <= 2 * reply.size(); ++size) {
    RedisProtocol pulls(RedisRows::kBinary, Op::kPull, work, 2, 0);
    EXPECT_EQ(Feed(pulls, reply + reply, size), 2u);
    EXPECT_EQ(pulls.values(), (std::vector<float>{1, 2, 3, 4}));
    RedisProtocol sets(RedisRows::kBinary, Op::kPush, work, 2, 1);
    EXPECT_EQ(Feed(sets, "+OK\r\n+OK\r\n+OK\r\n", size), 3u);
    RedisProtocol adds(RedisRows::kDecimals, Op::kPush, work, 1, 1);
    EXPECT_EQ(Feed(adds, "$1\r\n2\r\n$3\r\n3.5\r\n$1\r\n", size), 1u);
  }
}

TEST(RedisProtocolTest, RowsLargerThanItsBuffer) {
  const std::vector<float> tensor(1'000'000, 0.5f);
  const Work whole;
  RedisProtocol pull(RedisRows::kBinary, Op::kPull, whole, tensor.size(), 0);
  EXPECT_EQ(Feed(pull, Bulk(tensor), 60'000), 1u);
  EXPECT_EQ(pull.values(), tensor);
}

TEST(RedisProtocolTest, LostKeysAndErrorsAreNamed) {
  const Work work = OfKeys(1, {1});
  for (const std::string bad : {"$-1\r\n", "-ERR of some kind\r\n", "\r\n", "$5\r\nabcde\r\n"}) {
    RedisProtocol pull(RedisRows::kBinary, Op::kPull, work, 1, 0);
    std::memcpy(pull.Room().data(), bad.data(), bad.size());
    EXPECT_FALSE(pull.Took(bad.size()).ok()) << bad;
  }
}

TEST(ConnectionTest, EachRequestIsAnsweredWhateverItsSizeAndHowManyAreOnTheirWay) {
  absl::StatusOr<EchoListener> listener = EchoListener::Open();
  ASSERT_TRUE(listener.ok()) << listener.status();
  std::thread server([&] { listener->Serve(); });
  {
    const absl::StatusOr<Connection> other = Connection::To(listener->port());
    ASSERT_TRUE(other.ok()) << other.status();
    absl::StatusOr<Connection> connection = Connection::To(listener->port());
    ASSERT_TRUE(connection.ok()) << connection.status();
    for (const size_t outstanding : {1, 8}) {
      // Both ways at once more than a connection takes up by itself.
      for (const auto& [request, answer] :
           {std::pair<size_t, size_t>{0, 4}, {12, 1}, {5'000'000, 5'000'000}}) {
        EchoProtocol protocol(request, answer);
        const absl::StatusOr<Turn> turn = connection->Run(protocol, 0, outstanding, absl::Milliseconds(5));
        ASSERT_TRUE(turn.ok()) << turn.status();
        EXPECT_GE(turn->us.size(), 1u);
        EXPECT_GT(turn->seconds, 0);
      }
    }
    EchoProtocol protocol(4, 4);
    const absl::StatusOr<Turn> turn = connection->Run(protocol, 7, 8, absl::ZeroDuration());
    ASSERT_TRUE(turn.ok()) << turn.status();
    EXPECT_EQ(turn->us.size(), 1u);
  }
  listener->Stop();
  server.join();
}

}  // namespace
}  // namespace paceline::bench::peers
