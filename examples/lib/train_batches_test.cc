#include "examples/lib/train_batches.h"

#include "gtest/gtest.h"

namespace paceline::examples {
namespace {

TEST(ExamplesOfItemTest, WholeBatchesAndNeitherManyNorFewItems) {
  const auto of = [](size_t examples, size_t batch) {
    return ExamplesOfItem({.examples = examples, .batch_size = batch});
  };
  EXPECT_EQ(of(10, 16), 16u) << "the only item of an epoch is one batch";
  EXPECT_EQ(of(4000, 16), 16u) << "250 batches are 250 items";
  EXPECT_EQ(of(100'000, 16), 24 * 16u) << "6,250 batches are 261 items";
  EXPECT_EQ(of(100'000'000, 16), 64 * 16u) << "an item takes some seconds at most";
  EXPECT_EQ(of(0, 16), 16u);
}

// Workers are told apart by their options, which may differ in how many there are: the queue is the same.
TEST(ExamplesOfItemTest, DoesNotDependOnTheWorkers) {
  EXPECT_EQ(ExamplesOfItem({.examples = 100'000, .workers = 4}),
            ExamplesOfItem({.examples = 100'000, .workers = 1}));
}

}  // namespace
}  // namespace paceline::examples
