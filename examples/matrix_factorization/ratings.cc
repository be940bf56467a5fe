#include "examples/matrix_factorization/ratings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "examples/lib/schedule.h"
#include "examples/lib/text_file.h"

namespace paceline::examples {
namespace {

bool IsBlank(char c) {
  return c == ' ' || c == '\t';
}

// Takes one number off the front of a line.
template <class Number>
bool Take(const char** at, const char* end, Number* number) {
  const auto [stop, error] = std::from_chars(*at, end, *number);
  if (error != std::errc() || (stop != end && !IsBlank(*stop))) return false;
  *at = std::find_if_not(stop, end, IsBlank);
  return true;
}

// The ids, and in `numbers` the place of each among them.
std::vector<uint64_t> Number(const std::vector<uint64_t>& given, std::vector<uint32_t>* numbers) {
  std::vector<uint64_t> ids = given;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  numbers->resize(given.size());
  std::transform(given.begin(), given.end(), numbers->begin(), [&](uint64_t id) {
    return static_cast<uint32_t>(std::lower_bound(ids.begin(), ids.end(), id) - ids.begin());
  });
  return ids;
}

constexpr size_t kMost = 0xffffffff;  // ratings: users, items and ratings are numbered in 32 bits

}  // namespace

absl::StatusOr<Ratings> ParseRatings(absl::string_view text, absl::string_view name) {
  std::vector<uint64_t> users, items;
  std::vector<float> values;
  absl::string_view line;
  for (Lines lines(text); lines.Next(&line);) {
    if (line.empty()) continue;
    const char *at = line.data(), *const end = at + line.size();
    const char* word = at;  // the one that is looked at
    uint64_t user = 0, item = 0;
    float value = 0;
    const auto wrong = [&](absl::string_view expected) {
      return absl::InvalidArgumentError(absl::StrCat(name, ":", lines.number(), ": expected ", expected,
                                                     " in a line `user item rating`, found ",
                                                     WordAt(word, end)));
    };
    if (!Take(&at, end, &user)) return wrong("a user, a whole number,");
    word = at;
    if (!Take(&at, end, &item)) return wrong("an item, a whole number,");
    word = at;
    if (!Take(&at, end, &value) || !std::isfinite(value)) return wrong("a rating, a finite number,");
    users.push_back(user);
    items.push_back(item);
    values.push_back(value);
    if (values.size() == kMost) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": expected fewer than ", kMost, " ratings"));
    }
  }
  std::vector<uint32_t> user_numbers, item_numbers;
  Ratings ratings{.users = Number(users, &user_numbers), .items = Number(items, &item_numbers), .all = {}};
  ratings.all.reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    ratings.all.push_back({user_numbers[i], item_numbers[i], values[i]});
  }
  return ratings;
}

absl::StatusOr<Ratings> ReadRatings(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  return ParseRatings(*text, path);
}

SplitRatings Split(const Ratings& ratings, double held_out, uint64_t seed) {
  const size_t all = ratings.all.size();
  size_t test = static_cast<size_t>(std::llround(held_out * static_cast<double>(all)));
  if (all >= 2) test = std::clamp<size_t>(test, 1, all - 1);
  SplitRatings split;
  for (const uint32_t i : EpochOrder(all, seed, -1)) {  // one that no epoch has
    (split.test.size() < test ? split.test : split.train).push_back(ratings.all[i]);
  }
  if (split.train.empty()) return split;
  double sum = 0, squares = 0;
  split.lowest = split.highest = split.train.front().value;
  for (const Rating& rating : split.train) {
    sum += rating.value;
    squares += static_cast<double>(rating.value) * rating.value;
    split.lowest = std::min(split.lowest, rating.value);
    split.highest = std::max(split.highest, rating.value);
  }
  const double mean = sum / static_cast<double>(split.train.size());
  split.mean = static_cast<float>(mean);
  split.variance = std::max(0.0, squares / static_cast<double>(split.train.size()) - mean * mean);
  return split;
}

}  // namespace paceline::examples
