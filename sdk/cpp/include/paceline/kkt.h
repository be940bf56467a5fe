#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

namespace paceline {

// Leaves out of pushes the coordinates of an L1-regularised model that stay 0 anyway (the KKT filter: Li et
// al., OSDI 2014, section 5.1). It belongs to the program that trains, which knows the weights: filter what
// is about to be pushed.
//
//   KktFilter filter({.lambda = l1, .slack = 0.1f * l1});
//   for (...) {
//     weights = table.Pull(keys);
//     gradients = ...;
//     filter.Filter(weights, &keys, &gradients);   // both become shorter
//     table.PushAsync(keys, gradients);
//   }
//   filter.Reset(&keys, &gradients);               // before stopping
//   table.PushAsync(keys, gradients);
//
// By the conditions of Karush, Kuhn and Tucker a coordinate is 0 at the optimum if its gradient is within
// ±lambda. So a coordinate whose weight is 0, and whose gradient is within ±(lambda − slack), is not sent.
// The slack is for what the program does not see: weights are as old as the table's consistency allows, and
// others push too.
//
// Two kinds of rules have an L1 penalty, and differ in what a gradient that is not sent means:
//   - a proximal step, as ProximalSgd: the coordinate's next step depends on its next gradient alone. What
//     is not sent has no effect, and is forgotten. Without slack the model stays the same, bit by bit, if the
//     weights are those that the step meets.
//   - sums, as FtrlProximal: the weight is 0 as long as the *sum* of all gradients is within ±lambda. What
//     is not sent is kept and added to the coordinate's next gradient, and the condition is on that sum:
//     nothing is lost. The table's own sum is not known here, so lambda must be a share of the rule's `l1`:
//     with W workers, each of which keeps up to lambda − slack, weights leave 0 later by up to
//     W (lambda − slack) / l1 of their way.
//
// **The reset pass.** Before a program stops it looks at all coordinates again: after Reset everything is
// sent. It hands out what was kept of sums, which completes them: no further pass over the data is needed. Of
// a proximal step train one more pass after it.
//
// For one thread. Costs some 20 ns a coordinate, and 16 bytes for each that is kept.
class KktFilter {
 public:
  struct Options {
    float lambda = 0;                       // on the scale of the gradients that are pushed; at least 0
    float slack = 0;                        // 0 to lambda
    bool sums = false;                      // the rule adds gradients up
    uint64_t kept_max = uint64_t{1} << 24;  // coordinates; beyond them, gradients are sent
  };
  // REQUIRES: the options are as they say.
  explicit KktFilter(const Options& options) : options_(options) {}

  // Takes out of `keys` and `gradients` what is not sent, and adds to the others what was kept of them.
  // `weights` are those of the keys, in their order; each key stands there once.
  void Filter(absl::Span<const float> weights, std::vector<uint64_t>* keys, std::vector<float>* gradients);

  // From now on everything is sent. Replaces both by what was kept, in ascending order of keys.
  void Reset(std::vector<uint64_t>* keys, std::vector<float>* gradients);

  // Coordinates that Filter was given, and that it did not let pass.
  uint64_t given() const { return given_; }
  uint64_t left_out() const { return left_out_; }

 private:
  // The gradient with what was kept of the coordinate.
  float Due(uint64_t key, float gradient);
  // True: it is not sent now.
  bool LeavesOut(uint64_t key, float weight, float due);

  const Options options_;
  bool reset_ = false;
  absl::flat_hash_map<uint64_t, float> kept_;
  uint64_t given_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace paceline
