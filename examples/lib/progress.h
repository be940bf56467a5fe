#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "examples/lib/totals.h"

namespace paceline::examples {

// Shows how far a training has come: on a terminal one line that is drawn again and again, elsewhere a line
// when it begins and for each tenth, the latter at most once a second and at least once in ten seconds.
class Progress {
 public:
  struct Options {
    uint64_t examples_per_epoch = 0;
    int epochs = 1;
    std::string epoch = "epoch";        // what the example calls one pass over its data
    std::string examples = "examples";  // and what it passes over
    uint32_t workers = 1;
    int width = 0;  // columns of the terminal; 0: not a terminal
  };
  using Write = std::function<void(absl::string_view text)>;

  Progress(const Options& options, Write write) : options_(options), write_(std::move(write)) {}

  // Call often, `now` not falling.
  void Show(const Totals& totals, absl::Time now);
  // The last line is complete; further output may follow.
  void End();

 private:
  struct Sample {
    absl::Time time;
    uint64_t examples;
    double loss_sum;
  };

  // All workers are there; before, there is nothing to be said but how many are.
  bool Trains(const Totals& totals) const { return totals.started == options_.workers; }
  std::string Line(const Totals& totals) const;
  void AppendTimeLeft(std::string* line) const;
  std::string OneLine(const Totals& totals) const;
  double Share(const Totals& totals) const;
  bool IsDue(const Totals& totals, absl::Time now);
  void Remember(const Totals& totals, absl::Time now);

  const Options options_;
  const Write write_;
  std::deque<Sample> recent_;    // of the last seconds, oldest first
  std::optional<Sample> first_;  // when all workers were there
  bool drawn_ = false;           // on a terminal: the cursor stands behind a line
  absl::Time last_line_ = absl::InfinitePast();
  int last_tenth_ = 0;
  bool begun_ = false;  // a line has been written since the training began
};

// 1234567 as "1,234,567".
std::string Grouped(uint64_t number);

// "48 s", "3 min 20 s", "2 h 5 min": to the second, or, from an hour on, to the minute.
std::string ShortDuration(absl::Duration duration);

}  // namespace paceline::examples
