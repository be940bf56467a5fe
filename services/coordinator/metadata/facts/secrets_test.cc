// Secrets of sessions: drawn, told, and asked for.
#include "libs/base/test_util/status_matchers.h"
#include "libs/secret/secret.h"
#include "services/coordinator/metadata/test_util/test_cluster.h"

namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

class SecretsTest : public ::testing::Test {
 protected:
  SecretsTest() { cluster_.JoinShards(); }

  TestCluster cluster_;
};

TEST_F(SecretsTest, ASecretIsDrawnOnceAndItsDigestIsToldToShards) {
  const auto first = cluster_.OpenSession("ctr", 7);
  cluster_.Await(first);
  ASSERT_THAT(first.status(), IsOk());
  EXPECT_EQ(first->secret().size(), 32u);
  const auto again = cluster_.OpenSession("ctr", 7);
  cluster_.Await(again);
  EXPECT_EQ(again->secret(), first->secret()) << "the reply may have been lost";
  const auto other = cluster_.OpenSession("ctr", 8);
  cluster_.Await(other);
  EXPECT_NE(other->secret(), first->secret());
  const v1::Change& told = cluster_.shards().at("shard-0").changes.at(0);
  EXPECT_EQ(told.open().secret_sha256(), secret::Sha256(first->secret()));
  EXPECT_THAT(cluster_.core().Status().DebugString(), ::testing::Not(HasSubstr(first->secret())));
}

TEST_F(SecretsTest, ASecretOutlivesTheCoordinator) {
  const auto first = cluster_.OpenSession("ctr", 7);
  cluster_.Await(first);
  ASSERT_THAT(cluster_.Restart(), IsOk());
  cluster_.Run(absl::Seconds(1));
  const auto again = cluster_.OpenSession("ctr", 7);
  cluster_.Await(again);
  EXPECT_EQ(again->secret(), first->secret());
}

TEST_F(SecretsTest, OnlyTheOwnerOfASessionIsServed) {
  const uint64_t id = cluster_.Opened("ctr");
  for (const std::string& token : {std::string(), std::string("0123456789abcdef0123456789abcdef")}) {
    v1::KeepAliveRequest alive;
    alive.set_session(id);
    alive.set_token(token);
    EXPECT_THAT(cluster_.core().KeepAlive(alive),
                StatusIs(StatusCode::kPermissionDenied, HasSubstr("token")));
    v1::OpenTableRequest table;
    table.set_session(id);
    table.set_token(token);
    EXPECT_THAT(cluster_.core().OpenTable(table), StatusIs(StatusCode::kPermissionDenied));
    v1::CloseSessionRequest close;
    close.set_session(id);
    close.set_token(token);
    Pending<v1::CloseSessionReply> closing;
    cluster_.core().CloseSession(close, absl::InfiniteFuture(), closing.done());
    EXPECT_THAT(closing.status(), StatusIs(StatusCode::kPermissionDenied));
    v1::JoinJobRequest join;
    join.set_session(id);
    join.set_token(token);
    Pending<v1::JoinJobReply> joining;
    cluster_.core().JoinJob(join, absl::InfiniteFuture(), joining.done());
    EXPECT_THAT(joining.status(), StatusIs(StatusCode::kPermissionDenied));
    v1::FinishWorkerRequest finish;
    finish.set_session(id);
    finish.set_token(token);
    Pending<v1::FinishWorkerReply> finishing;
    cluster_.core().FinishWorker(finish, absl::InfiniteFuture(), finishing.done());
    EXPECT_THAT(finishing.status(), StatusIs(StatusCode::kPermissionDenied));
    v1::DropTableRequest drop;
    drop.set_session(id);
    drop.set_token(token);
    drop.set_table(1);
    Pending<v1::DropTableReply> dropping;
    cluster_.core().DropTable(drop, absl::InfiniteFuture(), dropping.done());
    EXPECT_THAT(dropping.status(), StatusIs(StatusCode::kPermissionDenied));
  }
  EXPECT_EQ(cluster_.StateOf(id), "open");
  EXPECT_THAT(cluster_.KeepAlive(id), IsOk());
}

TEST(SecretLevelTest, WithoutALevelThatAllSpeakThereAreNone) {
  TestCluster cluster(2);
  cluster.shards().level = 1;
  cluster.JoinShards();
  EXPECT_EQ(cluster.SecretOf(cluster.Opened("ctr")), "");
  TestCluster newer(2);
  newer.JoinShards();
  v1::OpenSessionRequest request;
  request.set_feature_level(1);
  request.set_job("ctr");
  request.set_nonce(7);
  Pending<v1::OpenSessionReply> older;
  newer.core().OpenSession(request, absl::InfiniteFuture(), older.done());
  newer.Await(older);
  EXPECT_EQ(older->secret(), "") << "its client could not show it";
  EXPECT_EQ(older->feature_level(), 1u);
  EXPECT_THAT(newer.KeepAlive(older->session()), IsOk());
}

}  // namespace
}  // namespace paceline::coordinator
