#include "examples/matrix_factorization/ratings.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::examples {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Ratings Parsed(absl::string_view text) {
  const absl::StatusOr<Ratings> ratings = ParseRatings(text, "text");
  EXPECT_TRUE(ratings.ok()) << ratings.status();
  return ratings.ok() ? *ratings : Ratings();
}

std::string ErrorOf(absl::string_view text) {
  return std::string(ParseRatings(text, "ratings.txt").status().message());
}

TEST(ParseRatingsTest, NumbersUsersAndItems) {
  const Ratings ratings =
      Parsed("# user item rating time\n7 300 4.5 88\n2\t300\t3\n7 18446744073709551615 1 # why\n");
  EXPECT_THAT(ratings.users, ElementsAre(2, 7));
  EXPECT_THAT(ratings.items, ElementsAre(300, ~uint64_t{0}));
  ASSERT_EQ(ratings.all.size(), 3u);
  EXPECT_EQ(ratings.all[0].user, 1u);
  EXPECT_EQ(ratings.all[0].item, 0u);
  EXPECT_EQ(ratings.all[0].value, 4.5f);
  EXPECT_EQ(ratings.all[1].user, 0u);
  EXPECT_EQ(ratings.all[2].item, 1u);
}

TEST(ParseRatingsTest, ErrorsNameLineAndWord) {
  EXPECT_EQ(ErrorOf("1 2 3\nuser_id item_id rating"),
            "ratings.txt:2: expected a user, a whole number, in a line `user item rating`, found 'user_id'");
  EXPECT_THAT(ErrorOf("1 -2 3"),
              HasSubstr("an item, a whole number, in a line `user item rating`, found '-2'"));
  EXPECT_THAT(ErrorOf("1 2 nan"), HasSubstr("found 'nan'"));
  EXPECT_THAT(ErrorOf("1 2 3x"), HasSubstr("found '3x'"));
  EXPECT_THAT(ErrorOf("1 2"), HasSubstr("found the end of the line"));
  EXPECT_THAT(ErrorOf("18446744073709551616 2 3"), HasSubstr("a user"));
}

TEST(SplitTest, HoldsOutAShareThatFollowsTheSeed) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += absl::StrCat(i, " ", i, " ", i % 5, "\n");
  const Ratings ratings = Parsed(text);
  const SplitRatings split = Split(ratings, 0.1, 1);
  EXPECT_EQ(split.test.size(), 100u);
  EXPECT_EQ(split.train.size(), 900u);
  EXPECT_NEAR(split.mean, 2, 0.2);
  EXPECT_NEAR(split.variance, 2, 0.2);
  EXPECT_EQ(split.lowest, 0);
  EXPECT_EQ(split.highest, 4);
  const auto users = [](const std::vector<Rating>& some) {
    std::vector<uint32_t> found;
    for (const Rating& rating : some) found.push_back(rating.user);
    return found;
  };
  EXPECT_EQ(users(Split(ratings, 0.1, 1).test), users(split.test));
  EXPECT_NE(users(Split(ratings, 0.1, 2).test), users(split.test));
  std::vector<uint32_t> all = users(split.test);
  for (uint32_t user : users(split.train)) all.push_back(user);
  std::sort(all.begin(), all.end());
  for (uint32_t i = 0; i < 1000; ++i) EXPECT_EQ(all[i], i);
}

TEST(SplitTest, LeavesSomethingOnBothSides) {
  const Ratings two = Parsed("1 1 1\n2 2 2");
  EXPECT_EQ(Split(two, 0.001, 1).test.size(), 1u);
  EXPECT_EQ(Split(two, 0.999, 1).train.size(), 1u);
  EXPECT_TRUE(Split(Ratings(), 0.5, 1).train.empty());
}

}  // namespace
}  // namespace paceline::examples
