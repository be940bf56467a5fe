#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

// Update rules and initialisers, for users of the SDK and for all that is below it. Plain values; a schema
// with a parameter that is not allowed is refused. docs/rules.md has the exact arithmetic and the allowed
// values.
//
//   client->OpenOrCreate("weights", Sparse{.init = Normal{.stddev = 0.01f}, .rule = Adagrad{.lr = 0.1f}});
//
// Client::ChangeRule changes the rates of a rule while the job trains; everything else is fixed when the
// table is created.
namespace paceline {
inline namespace values {

// -- Update rules: what a pushed row g does to the stored row w, element by element. --
//
// If a call names a key more than once, its updates are summed first (with Assign the last one wins; in an
// aggregated table all are summed). All arithmetic is in f32, in the order written. Slots, the values that a
// rule keeps beside the row, take memory of the shard but are never pulled.

// w ← g. The last push of a row wins: for values that one worker computes and the others read.
struct Assign {
  friend bool operator==(const Assign&, const Assign&) = default;
};
// w ← w + g. For counts and sums, and for workers that compute the whole step themselves.
struct Add {
  friend bool operator==(const Add&, const Add&) = default;
};
// w ← w − lr · g. Stochastic gradient descent: the worker pushes gradients.
struct Sgd {
  float lr = 0.01f;
  friend bool operator==(const Sgd&, const Sgd&) = default;
};
// n ← n + g²;  w ← w − lr · g / (√n + epsilon). The shard keeps n, the sum of squared gradients, in a slot
// beside each value. So values that are pushed rarely move in larger steps (Duchi et al., JMLR 2011).
struct Adagrad {
  float lr = 0.1f;
  // Keeps the first steps finite, where n is close to 0.
  float epsilon = 1e-8f;
  // The value of n before the first push of the row.
  float initial_accumulator = 0;
  friend bool operator==(const Adagrad&, const Adagrad&) = default;
};
// Follow the regularised leader (McMahan et al., KDD 2013): sparse solutions of L1-regularised problems. The
// shard keeps two values in slots beside each value.
struct FtrlProximal {
  // The rate of an element is alpha / (beta + √(the sum of its squared gradients)).
  float alpha = 0.1f;
  float beta = 1;
  // Values whose gradients do not outweigh l1 are exactly 0.
  float l1 = 0;
  // Pulls values towards 0.
  float l2 = 0;
  friend bool operator==(const FtrlProximal&, const FtrlProximal&) = default;
};
// v ← momentum · v + g;  w ← w − lr · v. Gradient descent with momentum, the heavy ball (Polyak 1964). One
// slot.
struct Momentum {
  float lr = 0.01f;
  float momentum = 0.9f;
  friend bool operator==(const Momentum&, const Momentum&) = default;
};
// v ← momentum · v + g;  w ← w − lr · (g + momentum · v). Nesterov's momentum (Sutskever et al., ICML 2013),
// where w is the point at which the gradients are taken. One slot.
struct Nesterov {
  float lr = 0.01f;
  float momentum = 0.9f;
  friend bool operator==(const Nesterov&, const Nesterov&) = default;
};
// n ← decay · n + (1 − decay) · g²;  w ← w − lr · g / (√n + epsilon) (Tieleman and Hinton 2012): like
// Adagrad, but gradients of long ago are forgotten. One slot.
struct RmsProp {
  float lr = 0.001f;
  float decay = 0.9f;
  float epsilon = 1e-8f;
  friend bool operator==(const RmsProp&, const RmsProp&) = default;
};
// Adam (Kingma and Ba, ICLR 2015), with its correction of the first steps, which counts the pushes of each
// row by itself. Four slots: the two means, and the sums of the weights in them.
struct Adam {
  float lr = 0.001f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  friend bool operator==(const Adam&, const Adam&) = default;
};
// A step of gradient descent, and then the proximal map of the penalty l1 · |w| + l2 / 2 · w² (Duchi and
// Singer, JMLR 2009): values that l1 outweighs are exactly 0. Only rows that are pushed feel the penalty.
struct ProximalSgd {
  float lr = 0.01f;
  float l1 = 0;
  float l2 = 0;
  friend bool operator==(const ProximalSgd&, const ProximalSgd&) = default;
};
// A rule of your own, as text. For each value the shard runs the statements of `code`, in order. They may use
//
//   w      the value, which they assign         + - * / and ( ), sqrt(x), abs(x), min(x, y), max(x, y)
//   g      what was pushed for it               select(x < y, a, b): a or b; also <=, >, >=, ==, !=
//   step   how often the row was pushed to, this push included; it takes a slot
//   the slots, which they may assign, and the parameters; numbers; and names of their own, once assigned
//
//   Expression{.slots = {"n"},
//              .params = {{"lr", 0.1f}, {"eps", 1e-8f}},
//              .code = "n = n + g*g; w = w - lr*g/(sqrt(n) + eps)"}  // Adagrad
//
// Each operation is done in f32, in the order written. At most 256 operations, 8 slots and 16 parameters; a
// wrong expression is refused when the table is opened, by line and character. Parameters can be changed like
// the rates of any rule; code and slots cannot. docs/rules.md has the grammar.
struct Expression {
  struct Named {
    Named() = default;
    Named(const char* called, float number = 0) : name(called), value(number) {}  // NOLINT(*-explicit-*)
    Named(std::string called, float number = 0)                                   // NOLINT(*-explicit-*)
        : name(std::move(called)), value(number) {}
    friend bool operator==(const Named&, const Named&) = default;

    std::string name;
    float value = 0;  // of a slot: before the first push of the row
  };

  std::vector<Named> slots = {};
  std::vector<Named> params = {};
  std::string code = {};
  friend bool operator==(const Expression&, const Expression&) = default;
};
// The rule of a table: one of them. Those after FtrlProximal need shards of feature level 2.
//
// A rule's number on the wire is its place here, from 1; so are its parameters'.
using Rule = std::variant<Assign, Add, Sgd, Adagrad, FtrlProximal, Momentum, Nesterov, RmsProp, Adam,
                          ProximalSgd, Expression>;

// -- Initialisers: what a row holds before its first push. --
//
// A function of the table's seed, the key and the column, so that every machine computes the same bits. A
// pull of a row that nobody has pushed to computes it, and stores nothing.

// Every element is 0.
struct Zeros {
  friend bool operator==(const Zeros&, const Zeros&) = default;
};
// Every element is `value`.
struct Constant {
  float value = 0;
  friend bool operator==(const Constant&, const Constant&) = default;
};
// Evenly distributed between low and high, both included.
struct Uniform {
  float low = 0;
  float high = 1;
  friend bool operator==(const Uniform&, const Uniform&) = default;
};
// Normally distributed.
struct Normal {
  float mean = 0;
  float stddev = 1;
  friend bool operator==(const Normal&, const Normal&) = default;
};
// The initialiser of a table: one of them. Tables with the same initialiser and seed hold the same initial
// values.
using Initialiser = std::variant<Zeros, Constant, Uniform, Normal>;  // numbered as rules are

}  // namespace values
}  // namespace paceline
