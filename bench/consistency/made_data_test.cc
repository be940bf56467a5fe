#include "bench/consistency/made_data.h"

#include <set>

#include "examples/lda/corpus.h"
#include "examples/matrix_factorization/ratings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::bench {
namespace {

TEST(MadeRatingsTest, AreRatingsOfTheShape) {
  const auto ratings = examples::ParseRatings(MadeRatings({}, 1), "made");
  ASSERT_TRUE(ratings.ok()) << ratings.status();
  EXPECT_EQ(ratings->users.size(), 160u) << "each has some";
  EXPECT_EQ(ratings->items.size(), 80u);
  EXPECT_EQ(ratings->all.size(), 7200u);
  const examples::SplitRatings split = examples::Split(*ratings, 0.1, 1);
  EXPECT_EQ(split.train.size(), 6480u) << "the batches of a pass are full";
  EXPECT_GT(split.variance, 0.09 + 0.5) << "much more than the noise: there is something to learn";
}

TEST(MadeRatingsTest, DependOnTheSeedAlone) {
  EXPECT_EQ(MadeRatings({}, 1), MadeRatings({}, 1));
  EXPECT_NE(MadeRatings({}, 1), MadeRatings({}, 2));
}

TEST(MadeDocumentsTest, AreDocumentsOfTheShape) {
  const auto corpus = examples::ParseCorpus(MadeDocuments({}, 1), "made");
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ(corpus->documents(), 480u);
  EXPECT_EQ(corpus->tokens.size(), 480u * 40u);
  EXPECT_EQ(corpus->words, 300u);
  EXPECT_EQ(std::set<uint32_t>(corpus->tokens.begin(), corpus->tokens.end()).size(), 300u)
      << "no word is lost";
}

TEST(MadeDocumentsTest, DependOnTheSeedAlone) {
  EXPECT_EQ(MadeDocuments({}, 1), MadeDocuments({}, 1));
  EXPECT_NE(MadeDocuments({}, 1), MadeDocuments({}, 2));
}

}  // namespace
}  // namespace paceline::bench
