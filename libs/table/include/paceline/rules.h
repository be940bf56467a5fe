#pragma once

#include <variant>

// Update rules and initialisers, for users of the SDK and for all that is below it. Plain values; a schema
// with a parameter that is not allowed is refused. docs/rules.md has the exact arithmetic and the allowed
// values.
namespace paceline {
inline namespace values {

// -- Update rules: what a pushed row g does to the stored row w, element by element. --
//
// If a call names a key more than once, its updates are summed first (with Assign the last one wins; in an
// aggregated table all are summed). All arithmetic is in f32, in the order written.

struct Assign {  // w ← g
  friend bool operator==(const Assign&, const Assign&) = default;
};
struct Add {  // w ← w + g
  friend bool operator==(const Add&, const Add&) = default;
};
struct Sgd {  // w ← w − lr · g
  float lr = 0.01f;
  friend bool operator==(const Sgd&, const Sgd&) = default;
};
struct Adagrad {  // a ← a + g²;  w ← w − lr · g / (√a + epsilon)
  float lr = 0.1f;
  float epsilon = 1e-8f;
  float initial_accumulator = 0;
  friend bool operator==(const Adagrad&, const Adagrad&) = default;
};
struct FtrlProximal {  // McMahan et al., KDD 2013: sparse solutions of L1-regularised problems
  float alpha = 0.1f;
  float beta = 1;
  float l1 = 0;
  float l2 = 0;
  friend bool operator==(const FtrlProximal&, const FtrlProximal&) = default;
};
// A rule's number on the wire is its place here, from 1; so are its parameters'.
using Rule = std::variant<Assign, Add, Sgd, Adagrad, FtrlProximal>;

// -- Initialisers: what a row holds before its first push. --
//
// A function of the table's seed, the key and the column, so that every machine computes the same bits.

struct Zeros {
  friend bool operator==(const Zeros&, const Zeros&) = default;
};
struct Constant {
  float value = 0;
  friend bool operator==(const Constant&, const Constant&) = default;
};
struct Uniform {  // between low and high, both included
  float low = 0;
  float high = 1;
  friend bool operator==(const Uniform&, const Uniform&) = default;
};
struct Normal {
  float mean = 0;
  float stddev = 1;
  friend bool operator==(const Normal&, const Normal&) = default;
};
using Initialiser = std::variant<Zeros, Constant, Uniform, Normal>;  // numbered as rules are

}  // namespace values
}  // namespace paceline
