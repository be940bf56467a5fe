#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paceline::examples {

// A rating by number of its user and its item, each counted from 0 in the order of their ids.
struct Rating {
  uint32_t user = 0;
  uint32_t item = 0;
  float value = 0;
};

// What users think of items. 12 bytes a rating.
struct Ratings {
  std::vector<uint64_t> users;  // their ids, ascending
  std::vector<uint64_t> items;
  std::vector<Rating> all;
};

// Parses lines `user item rating`, separated by blanks or tabs: the first two are whole numbers below 2^64,
// the third is finite; what follows on the line, a time for example, is left out, and so is what follows a
// '#'. `name` stands for the text in errors. InvalidArgument names the line, what is there and what was
// expected.
absl::StatusOr<Ratings> ParseRatings(absl::string_view text, absl::string_view name);
absl::StatusOr<Ratings> ReadRatings(const std::string& path);

// Ratings to train on, others that are held out, and what is known of the former.
struct SplitRatings {
  std::vector<Rating> train;
  std::vector<Rating> test;
  float mean = 0;
  double variance = 0;  // the mean squared error of the mean
  float lowest = 0, highest = 0;
};

// Holds out this share of the ratings, drawn by `seed`; at least one stays on each side if there are two.
SplitRatings Split(const Ratings& ratings, double held_out, uint64_t seed);

}  // namespace paceline::examples
