#include "libs/wire/schema_codec.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/table/about.h"

namespace paceline::wire {
namespace {

using paceline::testing::IsOk;
using paceline::testing::IsOkAndHolds;
using paceline::testing::StatusIs;

using ::testing::HasSubstr;

TEST(SchemaCodecTest, EveryRuleAndInitialiserRoundTrips) {
  const table::Rule rules[] = {
      table::Assign{},
      table::Add{},
      table::Sgd{0.5f},
      table::Adagrad{0.25f, 1e-6f, 0.125f},
      table::FtrlProximal{0.1f, 1, 0.5f, 0.25f},
      table::Momentum{0.5f, 0.25f},
      table::Nesterov{0.5f, 0.25f},
      table::RmsProp{0.5f, 0.25f, 0.125f},
      table::Adam{0.5f, 0.25f, 0.75f, 0.125f},
      table::ProximalSgd{0.5f, 0.25f, 0.125f},
      table::Expression{
          .slots = {"n", {"z", 0.5f}}, .params = {{"lr", 0.25f}}, .code = "n = n + g;\nw = w - lr*n"}};
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

// The place of a rule, and of each of its parameters, is its number on the wire. A learning rate is `lr` in
// C++.
template <class Choice, class Message, size_t... i>
void ExpectPlacesAreNumbers(std::index_sequence<i...>) {
  ASSERT_EQ(Message::descriptor()->field_count(), static_cast<int>(sizeof...(i)));
  for (const Choice& choice : {Choice(std::in_place_index<i>)...}) {
    const auto* kind = Message::descriptor()->FindFieldByNumber(static_cast<int>(choice.index()) + 1);
    ASSERT_NE(kind, nullptr);
    EXPECT_EQ(kind->name(), table::Names(choice)[choice.index()]);
    if (kind->name() == "expression") continue;  // its parameters are a list
    std::vector<std::string> names;
    table::EachParameter(choice, [&](const table::Parameter& parameter, float) {
      names.push_back(parameter.name == "lr" ? "learning_rate" : std::string(parameter.name));
    });
    ASSERT_EQ(kind->message_type()->field_count(), static_cast<int>(names.size())) << kind->name();
    for (size_t field = 0; field < names.size(); ++field) {
      const auto* found = kind->message_type()->FindFieldByNumber(static_cast<int>(field) + 1);
      ASSERT_NE(found, nullptr) << names[field];
      EXPECT_EQ(found->name(), names[field]);
    }
  }
}

TEST(SchemaCodecTest, PlacesAreTheNumbersOfTheWire) {
  ExpectPlacesAreNumbers<table::Rule, v1::Rule>(std::make_index_sequence<std::variant_size_v<table::Rule>>());
  ExpectPlacesAreNumbers<table::Initialiser, v1::Initialiser>(
      std::make_index_sequence<std::variant_size_v<table::Initialiser>>());
}

TEST(SchemaCodecTest, NamesTheWrongField) {
  v1::TableSchema schema = ToProto(table::Schema{});
  schema.clear_rule();
  EXPECT_THAT(SchemaFromProto(schema),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "rule: none is set, or one this version does not know; "
                       "expected assign, add, sgd, adagrad, ftrl_proximal, momentum, nesterov, "
                       "rmsprop, adam, proximal_sgd or expression"));
  schema.mutable_rule()->mutable_expression()->set_code("w = w - q");
  EXPECT_THAT(SchemaFromProto(schema),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rule.code, line 1, character 9 (q)")));
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
