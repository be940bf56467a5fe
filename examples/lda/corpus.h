#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace paceline::examples {

// Documents as bags of words: of each document its words, a word as often as it occurs. 4 bytes a token.
struct Corpus {
  std::vector<uint64_t> begin{0};  // documents() + 1 positions in `tokens`
  std::vector<uint32_t> tokens;    // numbers of words
  uint32_t words = 0;              // the largest number + 1: the size of the vocabulary

  size_t documents() const { return begin.size() - 1; }
  absl::Span<const uint32_t> document(size_t d) const {
    return absl::MakeConstSpan(tokens).subspan(begin[d], begin[d + 1] - begin[d]);
  }
};

// Parses the text that lda-c reads (D. Blei): a line `N id:count id:count …` a document, N being the number
// of its different words, their ids counted from 0, each once, counts from 1 to a million. Blank lines are
// not documents; '#' starts a comment. `name` stands for the text in errors. InvalidArgument names the line,
// what is there and what was expected.
absl::StatusOr<Corpus> ParseCorpus(absl::string_view text, absl::string_view name);
absl::StatusOr<Corpus> ReadCorpus(const std::string& path);

// Documents to train on, and others that are held out.
struct SplitDocuments {
  std::vector<uint32_t> train;  // in an order that is drawn at random
  std::vector<uint32_t> test;
};

// Holds out this share of the documents, drawn by `seed`; at least one stays on each side if there are two.
SplitDocuments Split(const Corpus& corpus, double held_out, uint64_t seed);

uint64_t TokensOf(const Corpus& corpus, absl::Span<const uint32_t> documents);

}  // namespace paceline::examples
