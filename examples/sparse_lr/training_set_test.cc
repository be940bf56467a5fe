#include "examples/sparse_lr/training_set.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::examples {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::IsEmpty;

Dataset Parse(absl::string_view text) {
  return ParseLibsvm(text, "test").value();
}

TEST(TrainingSetTest, DataWithinOneIsLeftAsItIs) {
  const TrainingSet set = MakeTrainingSet(Parse("1 1:0.6 2:0.8\n-1 2:1\n"), true);
  EXPECT_THAT(set.divisors, IsEmpty());
  EXPECT_THAT(set.data.values, ElementsAre(0.6f, 0.8f, 1.0f));
  EXPECT_EQ(set.shape.examples, 2u);
  EXPECT_NEAR(set.shape.row_norm, 1, 1e-6);
  EXPECT_THAT(OwnWeights(set, {1.0f, 2.0f, 3.0f}), ElementsAre(1.0f, 2.0f, 3.0f));
}

TEST(TrainingSetTest, ColumnsOfOtherScalesAreDividedByTheirLargest) {
  const TrainingSet set = MakeTrainingSet(Parse("1 0:-50000 1:1\n-1 0:25000 2:0.5\n"), true);
  EXPECT_THAT(set.divisors, ElementsAre(50000.0f, 1.0f, 0.5f));
  EXPECT_THAT(set.data.values, ElementsAre(-1.0f, 1.0f, 0.5f, 1.0f));
  Dataset other = Parse("1 0:100000 3:7\n");
  DivideAs(set, &other);
  EXPECT_THAT(other.values, ElementsAre(2.0f, 7.0f)) << "columns that the training set lacks have no weight";
  EXPECT_THAT(OwnWeights(set, {2.0f, 3.0f, 4.0f}), ElementsAre(FloatEq(4e-5f), 3.0f, 8.0f));
}

TEST(TrainingSetTest, SmallColumnsBesideLargeOnesAreDividedToo) {
  EXPECT_THAT(MakeTrainingSet(Parse("1 0:1 1:0.0001\n"), true).divisors, ElementsAre(1.0f, 0.0001f));
}

TEST(TrainingSetTest, ColumnsAreNotScaledUnlessAsked) {
  const TrainingSet set = MakeTrainingSet(Parse("1 0:30 1:40\n"), false);
  EXPECT_THAT(set.divisors, IsEmpty());
  EXPECT_NEAR(set.shape.row_norm, 50, 1e-4);
}

TEST(TrainingSetTest, RowsWithoutValues) {
  EXPECT_EQ(MakeTrainingSet(Parse("1\n-1\n"), true).shape.row_norm, 1);
}

}  // namespace
}  // namespace paceline::examples
