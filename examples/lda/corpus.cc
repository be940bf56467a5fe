#include "examples/lda/corpus.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "examples/lib/schedule.h"
#include "examples/lib/text_file.h"

namespace paceline::examples {
namespace {

constexpr uint32_t kMostOfAWord = 1'000'000;  // in one document
constexpr size_t kMostTokens = size_t{1} << 31;
constexpr uint32_t kWordLimit = std::numeric_limits<uint32_t>::max();

bool IsBlank(char c) {
  return c == ' ' || c == '\t';
}

// Parses one document at a time.
class DocumentParser {
 public:
  DocumentParser(absl::string_view name, Corpus* corpus) : name_(name), corpus_(corpus) {}

  absl::Status Parse(absl::string_view line, uint64_t number) {
    line_number_ = number;
    at_ = line.data();
    end_ = at_ + line.size();
    const char* const start = at_;
    uint32_t different = 0;
    if (!Take(&different) || !AtWordEnd()) return Error(start, "the number of different words,");
    words_.clear();
    while (SkipBlanks()) {
      if (absl::Status s = Word(); !s.ok()) return s;
    }
    if (words_.size() != different) {
      return Error(start, absl::StrCat(words_.size(), ", the number of `id:count` that follow,"));
    }
    corpus_->begin.push_back(corpus_->tokens.size());
    return CheckRepeats();
  }

 private:
  bool SkipBlanks() {
    while (at_ != end_ && IsBlank(*at_)) ++at_;
    return at_ != end_;
  }
  bool AtWordEnd() const { return at_ == end_ || IsBlank(*at_); }

  bool Take(uint32_t* number) {
    const auto [stop, error] = std::from_chars(at_, end_, *number);
    at_ = stop;
    return error == std::errc();
  }

  absl::Status Error(const char* where, absl::string_view expected) const {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ":", line_number_, ": expected ", expected, " found ", WordAt(where, end_)));
  }

  absl::Status Word() {
    const char* const start = at_;
    uint32_t word = 0, count = 0;
    const bool colon = Take(&word) && at_ != end_ && *at_++ == ':';
    if (!colon || !Take(&count) || !AtWordEnd() || word == kWordLimit || count < 1 || count > kMostOfAWord) {
      return Error(start, "id:count with a count from 1 to 1000000,");
    }
    if (corpus_->tokens.size() + count > kMostTokens) {
      return Error(start, absl::StrCat("at most ", kMostTokens, " tokens in all,"));
    }
    words_.push_back(word);
    corpus_->tokens.insert(corpus_->tokens.end(), count, word);
    corpus_->words = std::max(corpus_->words, word + 1);
    return absl::OkStatus();
  }

  absl::Status CheckRepeats() {
    std::sort(words_.begin(), words_.end());
    const auto twice = std::adjacent_find(words_.begin(), words_.end());
    if (twice == words_.end()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ":", line_number_, ": expected each word once, found word ", *twice, " twice"));
  }

  absl::string_view name_;
  Corpus* corpus_;
  std::vector<uint32_t> words_;  // of the document
  uint64_t line_number_ = 0;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
};

}  // namespace

absl::StatusOr<Corpus> ParseCorpus(absl::string_view text, absl::string_view name) {
  Corpus corpus;
  DocumentParser parser(name, &corpus);
  absl::string_view line;
  for (Lines lines(text); lines.Next(&line);) {
    if (line.empty()) continue;
    if (absl::Status s = parser.Parse(line, lines.number()); !s.ok()) return s;
  }
  return corpus;
}

absl::StatusOr<Corpus> ReadCorpus(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  return ParseCorpus(*text, path);
}

SplitDocuments Split(const Corpus& corpus, double held_out, uint64_t seed) {
  const size_t all = corpus.documents();
  size_t test = static_cast<size_t>(std::llround(held_out * static_cast<double>(all)));
  if (all >= 2) test = std::clamp<size_t>(test, 1, all - 1);
  const std::vector<uint32_t> order = EpochOrder(all, seed, -1);
  const auto cut = order.begin() + static_cast<std::ptrdiff_t>(test);
  return {.train = {cut, order.end()}, .test = {order.begin(), cut}};
}

uint64_t TokensOf(const Corpus& corpus, absl::Span<const uint32_t> documents) {
  uint64_t tokens = 0;
  for (const uint32_t d : documents) tokens += corpus.document(d).size();
  return tokens;
}

}  // namespace paceline::examples
