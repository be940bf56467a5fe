#pragma once

#include <cstdint>
#include <string>

namespace paceline::bench {

// Data that has what the examples look for, made anew by each run: the same everywhere for a seed.

struct RatingsShape {
  uint32_t users = 160;
  uint32_t items = 80;
  uint32_t rank = 4;        // of the matrix behind the ratings
  uint32_t ratings = 7200;  // each of a user and an item that are drawn at random
  double noise = 0.3;       // standard deviation
};
// Lines `user item rating`, as matrix_factorization reads them.
std::string MadeRatings(const RatingsShape& shape, uint64_t seed);

struct DocumentsShape {
  uint32_t documents = 480;
  uint32_t tokens = 40;  // of each document
  uint32_t words = 300;  // of the vocabulary
  uint32_t topics = 10;  // each of words of its own, and a document is of two of them
};
// Lines `N id:count …`, as lda reads them.
std::string MadeDocuments(const DocumentsShape& shape, uint64_t seed);

}  // namespace paceline::bench
