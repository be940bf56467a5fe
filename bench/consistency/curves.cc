#include "bench/consistency/curves.h"

namespace paceline::bench {
namespace {

double Reads(const std::map<uint64_t, uint64_t>& staleness_rows) {
  double all = 0;
  for (const auto& [clocks, rows] : staleness_rows) all += static_cast<double>(rows);
  return all;
}

}  // namespace

double AreaPerClock(const std::vector<examples::LossPoint>& curve) {
  if (curve.size() < 2) return 0;
  double area = 0;
  for (size_t i = 1; i < curve.size(); ++i) {
    area +=
        (curve[i].loss + curve[i - 1].loss) / 2 * static_cast<double>(curve[i].clock - curve[i - 1].clock);
  }
  return area / static_cast<double>(curve.back().clock - curve.front().clock);
}

std::optional<double> SecondsTo(const std::vector<examples::LossPoint>& curve, double loss,
                                uint64_t examples) {
  double sum = 0;  // of the losses of the examples from the point `oldest` on
  uint64_t held = 0;
  size_t oldest = 0;
  std::optional<double> before;  // the mean at the point before, if it was of enough examples
  const auto examples_of = [&](size_t i) { return curve[i].examples - (i == 0 ? 0 : curve[i - 1].examples); };
  for (size_t i = 0; i < curve.size(); ++i) {
    sum += curve[i].loss * static_cast<double>(examples_of(i));
    held += examples_of(i);
    for (; held - examples_of(oldest) >= examples; ++oldest) {
      sum -= curve[oldest].loss * static_cast<double>(examples_of(oldest));
      held -= examples_of(oldest);
    }
    if (held < examples) continue;
    const double mean = sum / static_cast<double>(held);
    if (mean <= loss) {
      if (!before.has_value()) return curve[i].seconds;
      const double missing = (loss - mean) / (*before - mean);
      return curve[i].seconds - missing * (curve[i].seconds - curve[i - 1].seconds);
    }
    before = mean;
  }
  return std::nullopt;
}

double ShareUpTo(const std::map<uint64_t, uint64_t>& staleness_rows, uint64_t clocks) {
  double fresh = 0;
  for (const auto& [behind, rows] : staleness_rows) {
    if (behind <= clocks) fresh += static_cast<double>(rows);
  }
  const double all = Reads(staleness_rows);
  return all == 0 ? 0 : fresh / all;
}

uint64_t ValuesWithShare(const std::map<uint64_t, uint64_t>& staleness_rows, double share) {
  const double all = Reads(staleness_rows);
  uint64_t values = 0;
  for (const auto& [clocks, rows] : staleness_rows) values += static_cast<double>(rows) >= share * all;
  return values;
}

}  // namespace paceline::bench
