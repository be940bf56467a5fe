#include "examples/lib/progress.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace paceline::examples {
namespace {

constexpr absl::Duration kRecent = absl::Seconds(2);
constexpr int kUsualLine = 86;  // columns that a line without its bar rarely exceeds: keeps the bar's length

}  // namespace

std::string Grouped(uint64_t number) {
  std::string digits = absl::StrCat(number);
  for (size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string ShortDuration(absl::Duration duration) {
  const int64_t seconds = absl::ToInt64Seconds(duration + absl::Milliseconds(500));
  if (seconds < 60) return absl::StrCat(seconds, " s");
  if (seconds < 3600) return absl::StrCat(seconds / 60, " min ", seconds % 60, " s");
  return absl::StrCat(seconds / 3600, " h ", seconds % 3600 / 60, " min");
}

void Progress::Show(const Totals& totals, absl::Time now) {
  Remember(totals, now);
  if (options_.width > 0) {
    write_(absl::StrCat("\r\x1b[K", OneLine(totals)));
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
  const int tenth = static_cast<int>(10 * Share(totals));
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
  if (!Trains(totals)) return;  // the wait for the others is none of the rate's business
  recent_.push_back({now, totals.examples, totals.loss_sum});
  if (!first_.has_value()) first_ = recent_.back();
  while (recent_.size() > 2 && recent_[1].time <= now - kRecent) recent_.pop_front();
}

// As much of a bar as there is room for; a full line would make the terminal go to the next.
std::string Progress::OneLine(const Totals& totals) const {
  const std::string line = Line(totals);
  const int room = options_.width - 1;
  const int text = std::max(static_cast<int>(line.size()), kUsualLine);
  const int cells = std::min(room - text - 3, 20);
  if (cells < 5 || !Trains(totals)) return line.substr(0, static_cast<size_t>(std::max(room, 0)));
  const int full = std::min(static_cast<int>(Share(totals) * cells), cells);
  return absl::StrCat("[", std::string(full, '#'), std::string(cells - full, '.'), "] ", line);
}

// Of all epochs.
double Progress::Share(const Totals& totals) const {
  const double all = static_cast<double>(options_.examples_per_epoch) * options_.epochs;
  return static_cast<double>(totals.examples) / std::max(all, 1.0);
}

std::string Progress::Line(const Totals& totals) const {
  if (!Trains(totals)) {
    return absl::StrFormat("%d of %d workers have started", totals.started, options_.workers);
  }
  const int epoch =
      static_cast<int>(totals.examples / std::max<uint64_t>(options_.examples_per_epoch, 1)) + 1;
  const Sample &first = recent_.front(), &last = recent_.back();
  const double examples = static_cast<double>(last.examples - first.examples);
  const double seconds = absl::ToDoubleSeconds(last.time - first.time);
  std::string line = absl::StrFormat("%s %d/%d %3.0f %%", options_.epoch, std::min(epoch, options_.epochs),
                                     options_.epochs, 100 * Share(totals));
  if (examples > 0 && seconds > 0) {
    absl::StrAppendFormat(&line, "  loss %.4f  %s %s/s", (last.loss_sum - first.loss_sum) / examples,
                          Grouped(static_cast<uint64_t>(examples / seconds)), options_.examples);
  }
  absl::StrAppendFormat(&line, "  staleness %.2f (max %d)", MeanStaleness(totals.staleness_rows),
                        MaxStaleness(totals.staleness_rows));
  AppendTimeLeft(&line);
  return line;
}

// At the mean rate so far: that of the last seconds jumps.
void Progress::AppendTimeLeft(std::string* line) const {
  const Sample& last = recent_.back();
  const double done = static_cast<double>(last.examples - first_->examples);
  const double all = static_cast<double>(options_.examples_per_epoch) * options_.epochs;
  const double left = all - static_cast<double>(last.examples);
  if (done <= 0 || left <= 0) return;
  absl::StrAppend(line, "  ", ShortDuration((last.time - first_->time) * (left / done)), " left");
}

}  // namespace paceline::examples
