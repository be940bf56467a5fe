#include "examples/sparse_lr/progress.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace paceline::examples {
namespace {

constexpr absl::Duration kRecent = absl::Seconds(2);

// Terminals count characters, not bytes; all of ours are one column wide.
std::string CutTo(int columns, std::string line) {
  int seen = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool begins_character = (line[i] & 0xC0) != 0x80;
    if (begins_character && seen++ == columns) return line.substr(0, i);
  }
  return line;
}

}  // namespace

std::string Grouped(uint64_t number) {
  std::string digits = absl::StrCat(number);
  for (size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

void Progress::Show(const Totals& totals, absl::Time now) {
  Remember(totals, now);
  if (options_.width > 0) {
    write_(absl::StrCat("\r\x1b[K", CutTo(options_.width - 1, Line(totals))));
    drawn_ = true;
  } else if (IsDue(totals, now)) {
    write_(absl::StrCat(Line(totals), "\n"));
  }
}

void Progress::End() {
  if (drawn_) write_("\n");
  drawn_ = false;
}

bool Progress::IsDue(const Totals& totals, absl::Time now) {
  const uint64_t all = options_.examples_per_epoch * static_cast<uint64_t>(options_.epochs);
  const int tenth = static_cast<int>(10 * totals.examples / std::max<uint64_t>(all, 1));
  const bool begins = Trains(totals) && !begun_;
  const bool ends = tenth >= 10 && last_tenth_ < 10;
  const absl::Duration pause = tenth > last_tenth_ ? absl::Seconds(1) : absl::Seconds(10);
  if (!begins && !ends && now - last_line_ < pause) return false;
  begun_ = Trains(totals);
  last_line_ = now;
  last_tenth_ = tenth;
  return true;
}

void Progress::Remember(const Totals& totals, absl::Time now) {
  recent_.push_back({now, totals.examples, totals.loss_sum});
  while (recent_.size() > 2 && recent_[1].time <= now - kRecent) recent_.pop_front();
}

std::string Progress::Bar(double share) const {
  constexpr int kCells = 20;
  const int full = std::clamp(static_cast<int>(share * kCells), 0, kCells);
  return absl::StrCat("[", std::string(full, '#'), std::string(kCells - full, '.'), "] ");
}

std::string Progress::Line(const Totals& totals) const {
  if (!Trains(totals)) {
    return absl::StrFormat("%d of %d workers have started", totals.started, options_.workers);
  }
  const double per_epoch = static_cast<double>(std::max<uint64_t>(options_.examples_per_epoch, 1));
  const double epochs_done = static_cast<double>(totals.examples) / per_epoch;
  const double share = epochs_done / options_.epochs;
  const Sample &first = recent_.front(), &last = recent_.back();
  const double examples = static_cast<double>(last.examples - first.examples);
  const double seconds = absl::ToDoubleSeconds(last.time - first.time);
  std::string line = options_.width > 0 ? Bar(share) : "";
  absl::StrAppendFormat(&line, "epoch %d/%d %3.0f %%",
                        std::min(static_cast<int>(epochs_done) + 1, options_.epochs), options_.epochs,
                        100 * share);
  if (examples > 0 && seconds > 0) {
    absl::StrAppendFormat(&line, "  loss %.4f  %s examples/s", (last.loss_sum - first.loss_sum) / examples,
                          Grouped(static_cast<uint64_t>(examples / seconds)));
  }
  absl::StrAppendFormat(&line, "  staleness mean %.2f max %d", MeanStaleness(totals.staleness_rows),
                        MaxStaleness(totals.staleness_rows));
  return line;
}

}  // namespace paceline::examples
