#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paceline {

// What this client sends of its pushes to a table, and when: less now, and the rest later. A member of Sparse
// and Ranged, and an argument of Client::Open.
//
//   const PushFilter filter{.top_k = 0.1, .precision = PushPrecision::kInt8};
//   client->OpenOrCreate("weights", Sparse{.dim = 64, .rule = Sgd{.lr = 0.1f}, .push_filter = filter});
//
// **Held back, not lost.** Of every row that is pushed, the client takes what is due: what is given, and what
// it holds back of that row, added in f32. It sends the row, or holds it back until the row is pushed again;
// or it sends the row rounded, and holds back the rest. So what was sent and what is held back always sum up
// to what was given (error feedback: Seide et al., INTERSPEECH 2014). Client::Flush, Finish and
// WorkQueue::Done send everything that is held back, as it is, before anything else that they do; so does the
// client's destructor, which waits for that at most a second. Client::Tick does not. A client that is killed
// or evicted loses what it holds back.
//
// **What is held back is no update yet.** It gets its number and its clock when it is sent. No reader sees
// it, this client's own reads included, nor is a read's bound about it: under Ssp{s} a read at clock c holds
// all that was *sent* at clocks below c − s. A snapshot of the job does not hold it, and its manifest says
// that clients may hold back updates of the table. The future of a push ends when what was sent of it is
// committed; a push of which nothing is sent ends at once. PushPull is sent as it is given, and what is held
// back of its rows stays so.
//
// **Acts once.** Here, before the push is cut into numbered parts: whatever is sent again, after a broken
// connection or a move, has the same keys and values.
//
// **Refused** with FAILED_PRECONDITION, when the table is opened:
//   - aggregated tables, and with them Bsp: a clock's fold is of that clock's updates, and what is held
//     back would be folded into a later one;
//   - Vap: its bound counts what was pushed and not seen, of which what is held back would be no part;
//   - Assign: the last value of a row wins, and the sum of two is neither;
//   - rules that go by how often a row is pushed: Momentum, Nesterov, RmsProp, Adam, and an Expression
//     with `step`. Two updates that are sent as one count once;
//   - a precision with Add: rows of Add may be counts, and a count is not rounded. Push the negative of a
//     step to a table of Sgd{.lr = 1} instead.
// UNIMPLEMENTED: some shard, or the coordinator, is of feature level 1.
//
// Costs some 50 ns and a copy of its values for each row pushed; memory for what is held back.

// How many bits a value has. Rounding goes to the nearest, ties to even. What is rounded is less only to
// links that pack values; without them it still travels as f32.
enum class PushPrecision : uint8_t {
  kF32,   // as it is
  kF16,   // IEEE 754 binary16: 11 significant bits, up to 65,504
  kBf16,  // 8 significant bits, and the range of an f32
  kInt8,  // 8 bits: whole multiples, -127 to 127, of the smallest power of two for which the row's largest
          // value fits
};

// A filter; as it is made it filters nothing.
struct PushFilter {
  // -- which rows of a push are sent now; at most one of these three --

  // The largest rows of each push, by their largest absolute value: this share, rounded up. In (0, 1].
  std::optional<double> top_k = std::nullopt;
  // Each row waits with this probability. In [0, 1).
  std::optional<double> skip = std::nullopt;
  // Rows whose largest absolute value is at least this. Above 0. In the unit of what is pushed: under Sgd the
  // values of the table differ by the rate times as much.
  std::optional<double> significant = std::nullopt;
  // `significant` becomes smaller with the clock: at a worker's t-th, it is divided by the root of t.
  bool decays = false;

  // -- and how --
  PushPrecision precision = PushPrecision::kF32;

  // Memory for what is held back, in bytes: a row counts with its values and 32 bytes more. A row for which
  // there is no room is sent, and sent unrounded.
  uint64_t held_bytes_max = uint64_t{64} << 20;

  // True: it does something.
  bool active() const {
    return top_k.has_value() || skip.has_value() || significant.has_value() ||
           precision != PushPrecision::kF32;
  }
  friend bool operator==(const PushFilter&, const PushFilter&) = default;
};

// One or several of `top-k:SHARE`, `skip:PROBABILITY`, `significant:V`, `significant:V/sqrt`, `f16`, `bf16`
// and `int8`, separated by commas; "" filters nothing. INVALID_ARGUMENT names what is wrong.
absl::StatusOr<PushFilter> ParsePushFilter(absl::string_view text);
// True for names, with whatever follows a colon, that ParsePushFilter would look at.
bool IsPushFilter(absl::string_view word);
// As ParsePushFilter reads it, without the memory.
std::string ToString(const PushFilter& filter);

}  // namespace paceline
