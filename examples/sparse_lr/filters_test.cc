#include "examples/sparse_lr/filters.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace paceline::examples {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(FiltersTest, SplitsTheText) {
  const absl::StatusOr<Filters> all = ParseFilters("keys, kkt:0.5,zstd,top-k:0.25,int8");
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->kkt, 0.5);
  EXPECT_EQ(all->push, (PushFilter{.top_k = 0.25, .precision = PushPrecision::kInt8}));
  const paceline::Filters pull{.key_lists = true, .compression = Compression::kZstd};
  paceline::Filters push = pull;
  push.packing = Packing::kInt8;
  EXPECT_EQ(all->link, (LinkFilters{.push = push, .pull = pull})) << "what is rounded is packed";
  EXPECT_EQ(ParseFilters("kkt")->kkt, 0.1);
  const absl::StatusOr<Filters> none = ParseFilters("");
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_FALSE(none->kkt.has_value() || none->push.active());
  EXPECT_EQ(none->link, LinkFilters());
}

TEST(FiltersTest, NamesWhatIsWrong) {
  for (const char* text : {"kkt:", "kkt:0", "kkt:2", "kkt:x", "top-k:2", "f16,int8", "no-such"}) {
    const absl::StatusOr<Filters> filters = ParseFilters(text);
    EXPECT_EQ(filters.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(filters.status().message(), HasSubstr("--filters: ")) << text;
  }
}

TEST(FiltersTest, TheWorkersTogetherKeepTheirShare) {
  KktFilter filter = MakeKktFilter({.kkt = 0.5}, /*lambda1=*/8, /*workers=*/4);
  std::vector<uint64_t> keys = {1, 2};
  std::vector<float> gradients = {1, 1.25f};
  filter.Filter(std::vector<float>{0, 0}, &keys, &gradients);
  EXPECT_THAT(keys, ElementsAre(2)) << "half of 8, over four workers";
}

TEST(FiltersTest, TellsEachShare) {
  Totals totals;
  totals.kkt = {.given = 2000, .left_out = 1500, .late_given = 100, .late_left_out = 95};
  totals.push_filter = {.rows_given = 1000, .rows_sent = 250, .bytes_given = 12000, .bytes_sent = 3000};
  totals.link_filters["keys"] = {.bytes_plain = 4000, .bytes_coded = 1000, .seconds = 0.5};
  const Filters filters{.kkt = 0.1, .push = {.top_k = 0.25}};
  const std::string text = FormatFilters(filters, totals);
  EXPECT_THAT(text, HasSubstr("75.0 % of 2,000 values not sent, 95.0 % in the last epoch: 18,000 bytes\n"));
  EXPECT_THAT(text, HasSubstr("top-k:0.25"));
  EXPECT_THAT(text, HasSubstr("75.0 % of 1,000 rows not sent: 9,000 bytes\n"));
  EXPECT_THAT(text, HasSubstr("75.0 % of 4,000 bytes not sent, in 0.50 s"));
  const nlohmann::ordered_json json = FiltersJson(filters, totals);
  EXPECT_EQ(json["link"]["keys"]["bytes_not_sent"], 3000);
  EXPECT_EQ(json["kkt"]["values_not_sent"], 1500);
  EXPECT_EQ(json["kkt"]["share"], 0.75);
  EXPECT_EQ(json["kkt"]["last_epoch_share"], 0.95);
  EXPECT_EQ(json["push"]["rows_not_sent"], 750);
  EXPECT_EQ(json["push"]["bytes_not_sent"], 9000);
  EXPECT_EQ(FormatFilters(Filters(), Totals()), "");
  EXPECT_TRUE(FiltersJson(Filters(), Totals()).empty());
}

}  // namespace
}  // namespace paceline::examples
