#include "libs/wire/schema_codec.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"

namespace paceline::wire {
namespace {

using paceline::testing::IsOk;
using paceline::testing::IsOkAndHolds;
using paceline::testing::StatusIs;

using ::testing::HasSubstr;

TEST(SchemaCodecTest, EveryRuleAndInitialiserRoundTrips) {
  const table::Rule rules[] = {table::Assign{}, table::Add{}, table::Sgd{0.5f},
                               table::Adagrad{0.25f, 1e-6f, 0.125f},
                               table::FtrlProximal{0.1f, 1, 0.5f, 0.25f}};
  const table::Initialiser inits[] = {table::Zeros{}, table::Constant{3}, table::Uniform{-1, 2},
                                      table::Normal{1, 2}};
  for (const table::Rule& rule : rules) {
    for (const table::Initialiser& init : inits) {
      const table::Schema schema{.kind = table::Kind::kRanged,
                                 .dim = 4,
                                 .rows = 1000,
                                 .init = init,
                                 .rule = rule,
                                 .aggregated = true,
                                 .mean = true,
                                 .accept_non_finite = true,
                                 .seed = 77};
      EXPECT_THAT(SchemaFromProto(ToProto(schema)), IsOkAndHolds(schema));
    }
  }
}

TEST(SchemaCodecTest, NamesWhatIsWrong) {
  v1::TableSchema schema = ToProto(table::Schema{});
  schema.clear_rule();
  EXPECT_THAT(SchemaFromProto(schema), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rule")));
  schema = ToProto(table::Schema{});
  schema.set_kind(static_cast<v1::TableKind>(9));
  EXPECT_THAT(SchemaFromProto(schema), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("kind: 9")));
  schema = ToProto(table::Schema{});
  schema.set_dim(0);
  EXPECT_THAT(SchemaFromProto(schema), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("dim")));
  schema.set_dim(1'000'000);
  EXPECT_THAT(SchemaFromProto(schema), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("dim")));
}

}  // namespace
}  // namespace paceline::wire
