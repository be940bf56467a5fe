// Tables: creation, refusals, and the shards that hear of them.
#include "libs/base/test_util/status_matchers.h"
#include "services/coordinator/metadata/test_util/test_cluster.h"

namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

class TablesTest : public ::testing::Test {
 protected:
  TablesTest() {
    cluster_.JoinShards();
    session_ = cluster_.Opened("ctr");
  }

  TestCluster cluster_{2};
  uint64_t session_ = 0;
};

TEST_F(TablesTest, TheFirstOpeningCreatesAndTheShardsAreTold) {
  const auto opened = cluster_.OpenTable(session_, "weights", SparseSchema(4));
  ASSERT_THAT(opened, IsOk());
  EXPECT_EQ(opened->table().id(), 1u);
  EXPECT_EQ(opened->table().job(), 1u);
  EXPECT_EQ(opened->table().name(), "weights");
  EXPECT_EQ(opened->catalogue_version(), 1u);
  cluster_.shards().Deliver();
  EXPECT_EQ(cluster_.shards().at("shard-0").catalogue.tables_size(), 1);
  EXPECT_EQ(cluster_.shards().at("shard-1").catalogue.version(), 1u);
  const auto catalogue = cluster_.core().GetCatalogue();
  ASSERT_THAT(catalogue, IsOk());
  EXPECT_EQ(catalogue->tables(0).SerializeAsString(), opened->table().SerializeAsString());
}

v1::OpenTableRequest HoldingBack(const TestCluster& cluster, uint64_t session,
                                 const v1::TableSchema& schema) {
  v1::OpenTableRequest request;
  request.set_session(session);
  request.set_token(cluster.SecretOf(session));
  request.set_name("weights");
  *request.mutable_schema() = schema;
  request.set_create(true);
  request.set_holds_back(true);
  return request;
}

TEST_F(TablesTest, ThatASessionHoldsBackUpdatesIsKept) {
  const auto created = cluster_.OpenTable(session_, "weights", SparseSchema(4));
  ASSERT_THAT(created, IsOk());
  EXPECT_FALSE(created->table().has_holds_back()) << "manifests of others have no line for it";
  const auto opened = cluster_.core().OpenTable(HoldingBack(cluster_, session_, SparseSchema(4)));
  ASSERT_THAT(opened, IsOk());
  EXPECT_TRUE(opened->table().holds_back());
  const auto again = cluster_.OpenTable(cluster_.Opened("ctr"), "weights", SparseSchema(4));
  EXPECT_TRUE(again->table().holds_back()) << "whoever opens it";
  EXPECT_TRUE(cluster_.core().Status().tables(0).holds_back());
}

TEST_F(TablesTest, UpdatesOfAnAggregatedTableAreNotHeldBack) {
  v1::TableSchema schema = SparseSchema(4);
  schema.set_aggregated(true);
  EXPECT_THAT(cluster_.core().OpenTable(HoldingBack(cluster_, session_, schema)).status(),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("holds_back: the table is aggregated")));
  EXPECT_EQ(cluster_.core().Status().tables_size(), 0);
}

TEST(TablesOfOlderShardsTest, WhatIsHeldBackIsRefused) {
  TestCluster cluster(2);
  cluster.shards().level = 1;
  cluster.JoinShards();
  const uint64_t session = cluster.Opened("ctr");
  EXPECT_THAT(cluster.core().OpenTable(HoldingBack(cluster, session, SparseSchema(4))).status(),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("holds_back belongs to feature level 2")));
}

TEST_F(TablesTest, TheSameSchemaOpensTheSameTable) {
  const auto created = cluster_.OpenTable(session_, "weights", SparseSchema(4));
  const auto opened = cluster_.OpenTable(cluster_.Opened("ctr"), "weights", SparseSchema(4));
  ASSERT_THAT(opened, IsOk());
  EXPECT_EQ(opened->table().SerializeAsString(), created->table().SerializeAsString());
  EXPECT_EQ(opened->catalogue_version(), 1u);
}

TEST(TablesOfOlderShardsTest, ARuleThatTheyDoNotKnowIsRefusedByName) {
  TestCluster cluster(2);
  cluster.shards().level = 1;
  cluster.JoinShards();
  const uint64_t session = cluster.Opened("ctr");
  v1::TableSchema schema = SparseSchema(4);
  schema.mutable_rule()->mutable_adam()->set_learning_rate(0.5f);
  schema.mutable_rule()->mutable_adam()->set_epsilon(1e-8f);
  EXPECT_THAT(cluster.OpenTable(session, "weights", schema).status(),
              StatusIs(StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("table 'weights': the rule adam belongs to feature level 2"),
                             HasSubstr("shard-0 ("), HasSubstr("shard-1 ("))));
  EXPECT_THAT(cluster.OpenTable(session, "weights", SparseSchema(4)), IsOk()) << "its rule is an old one";
}

TEST_F(TablesTest, AnExpressionIsCheckedWhenItsTableIsCreated) {
  v1::TableSchema schema = SparseSchema(4);
  v1::Rule::Expression& rule = *schema.mutable_rule()->mutable_expression();
  rule.add_params()->set_name("lr");
  rule.set_code("w = w - lr*h");
  EXPECT_THAT(cluster_.OpenTable(session_, "weights", schema).status(),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("rule.code, line 1, character 12 (h): 'h' is not known"),
                             HasSubstr("declare it in slots or params"))));
  rule.set_code("w = w - lr*g");
  EXPECT_THAT(cluster_.OpenTable(session_, "weights", schema), IsOk());
  rule.set_code("w = w - lr*g*2");
  EXPECT_THAT(
      cluster_.OpenTable(session_, "weights", schema).status(),
      StatusIs(StatusCode::kAlreadyExists,
               HasSubstr("rule: expression(\"w = w - lr*g\", lr 0) against expression(\"w = w - lr*g*2\"")));
}

TEST_F(TablesTest, AnotherSchemaIsRefusedByField) {
  v1::TableSchema schema = SparseSchema(4);
  schema.mutable_rule()->mutable_sgd()->set_learning_rate(0.5f);
  schema.set_seed(3);
  ASSERT_THAT(cluster_.OpenTable(session_, "weights", schema), IsOk());
  const auto refused = [&](const v1::TableSchema& other) {
    return cluster_.OpenTable(session_, "weights", other).status();
  };
  v1::TableSchema other = schema;
  other.set_dim(8);
  EXPECT_THAT(refused(other),
              StatusIs(StatusCode::kAlreadyExists,
                       AllOf(HasSubstr("table 'weights' of job 'ctr'"), HasSubstr("dim: 4 against 8"))));
  other = schema;
  other.set_kind(v1::TABLE_KIND_RANGED);
  other.set_rows(10);
  EXPECT_THAT(refused(other), StatusIs(StatusCode::kAlreadyExists, HasSubstr("kind: sparse against ranged")));
  other = schema;
  other.mutable_rule()->mutable_sgd()->set_learning_rate(0.25f);
  EXPECT_THAT(refused(other),
              StatusIs(StatusCode::kAlreadyExists, AllOf(HasSubstr("0.5"), HasSubstr("0.25"))));
  other = schema;
  other.mutable_initialiser()->mutable_constant()->set_value(1);
  EXPECT_THAT(refused(other), StatusIs(StatusCode::kAlreadyExists, HasSubstr("init")));
  other = schema;
  other.set_accept_non_finite(true);
  EXPECT_THAT(refused(other), StatusIs(StatusCode::kAlreadyExists, HasSubstr("accept_non_finite")));
  other = schema;
  other.set_seed(4);
  EXPECT_THAT(refused(other), StatusIs(StatusCode::kAlreadyExists, HasSubstr("seed: 3 against 4")));
  other.set_seed(0);
  EXPECT_THAT(refused(other), IsOk()) << "no wish";
}

TEST_F(TablesTest, ASchemaThatIsWrongIsRefusedByField) {
  EXPECT_THAT(cluster_.OpenTable(session_, "w", SparseSchema(0)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("dim")));
  v1::TableSchema schema = SparseSchema();
  schema.clear_rule();
  EXPECT_THAT(cluster_.OpenTable(session_, "w", schema),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("rule")));
  EXPECT_THAT(cluster_.OpenTable(session_, "", SparseSchema()),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("name")));
  EXPECT_EQ(cluster_.core().Status().tables_size(), 0);
}

TEST_F(TablesTest, WhetherATableIsAggregatedIsPartOfItsSchema) {
  v1::TableSchema schema = SparseSchema();
  schema.set_aggregated(true);
  const auto opened = cluster_.OpenTable(session_, "w", schema);
  ASSERT_THAT(opened, IsOk());
  EXPECT_TRUE(opened->table().schema().aggregated());
  schema.set_aggregated(false);
  EXPECT_THAT(cluster_.OpenTable(session_, "w", schema),
              StatusIs(StatusCode::kAlreadyExists, HasSubstr("aggregated: true against false")));
}

TEST_F(TablesTest, OpeningWithoutCreating) {
  EXPECT_THAT(cluster_.OpenTable(session_, "weights", {}, false),
              StatusIs(StatusCode::kNotFound, AllOf(HasSubstr("weights"), HasSubstr("job 'ctr'"))));
  ASSERT_THAT(cluster_.OpenTable(session_, "weights", SparseSchema()), IsOk());
  EXPECT_THAT(cluster_.OpenTable(session_, "weights", {}, false), IsOk()) << "the schema is not compared";
}

TEST_F(TablesTest, EachJobHasItsOwnTables) {
  const auto mine = cluster_.OpenTable(session_, "weights", SparseSchema(4));
  const uint64_t stranger = cluster_.Opened("other");
  const auto theirs = cluster_.OpenTable(stranger, "weights", SparseSchema(8));
  ASSERT_THAT(theirs, IsOk());
  EXPECT_NE(theirs->table().id(), mine->table().id());
  const auto opening = cluster_.OpenSession("other", 77);
  cluster_.Await(opening);
  ASSERT_EQ(opening->catalogue().tables_size(), 1);
  EXPECT_EQ(opening->catalogue().tables(0).id(), theirs->table().id());
  EXPECT_EQ(opening->catalogue().version(), 2u);
}

TEST_F(TablesTest, AnOpenSessionIsNeeded) {
  EXPECT_THAT(cluster_.OpenTable(99, "weights", SparseSchema()),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("session 99")));
}

TEST_F(TablesTest, SeedsAreChosenOncePerTable) {
  const auto a = cluster_.OpenTable(session_, "a", SparseSchema());
  const auto b = cluster_.OpenTable(session_, "b", SparseSchema());
  EXPECT_NE(a->table().schema().seed(), 0u);
  EXPECT_NE(a->table().schema().seed(), b->table().schema().seed());
  ASSERT_THAT(cluster_.Restart(), IsOk());
  const auto again = cluster_.OpenTable(session_, "a", SparseSchema());
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->table().SerializeAsString(), a->table().SerializeAsString());
  const auto c = cluster_.OpenTable(session_, "c", SparseSchema());
  EXPECT_EQ(c->table().id(), 3u);
  EXPECT_EQ(c->catalogue_version(), 3u);
}

TEST_F(TablesTest, AShardThatMissedATableIsToldByItsNextBeat) {
  cluster_.shards().at("shard-1").up = false;
  ASSERT_THAT(cluster_.OpenTable(session_, "weights", SparseSchema()), IsOk());
  cluster_.Run(absl::Seconds(10));
  EXPECT_EQ(cluster_.shards().at("shard-1").catalogue.version(), 0u);
  cluster_.shards().at("shard-1").up = true;
  cluster_.Run(absl::Seconds(2));
  EXPECT_EQ(cluster_.shards().at("shard-1").catalogue.version(), 1u);
}

TEST(TablesLimitTest, TablesAreBounded) {
  Options options{.ring_bits = 3};
  options.limits.tables = 1;
  TestCluster cluster(2, options);
  cluster.JoinShards();
  const uint64_t session = cluster.Opened("ctr");
  ASSERT_THAT(cluster.OpenTable(session, "a", SparseSchema()), IsOk());
  EXPECT_THAT(cluster.OpenTable(session, "b", SparseSchema()),
              StatusIs(StatusCode::kResourceExhausted, HasSubstr("tables")));
}

}  // namespace
}  // namespace paceline::coordinator
