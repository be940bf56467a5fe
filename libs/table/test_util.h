#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "libs/base/ids.h"
#include "libs/ring/hash.h"
#include "libs/table/initialiser.h"
#include "libs/table/schema.h"

// Shared by tests of tables: a store so simple that it is obviously right, and keys at chosen places.
namespace paceline::table {

inline std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

// One value and its slots, updated one at a time by the formulas of rule.h.
struct ReferenceValue {
  float w = 0;
  std::array<float, 4> slots = {};

  void Apply(const Assign&, float g) { w = g; }
  void Apply(const Add&, float g) { w = w + g; }
  void Apply(const Sgd& rule, float g) {
    const float step = rule.lr * g;
    w = w - step;
  }
  void Apply(const Adagrad& rule, float g) {
    float& n = slots[0];
    const float square = g * g;
    n = n + square;
    const float root = std::sqrt(n);
    const float above = rule.lr * g;
    const float below = root + rule.epsilon;
    w = w - above / below;
  }
  void Apply(const FtrlProximal& rule, float g) {
    auto& [n, z, unused, none] = slots;
    const float square = g * g;
    const float m = n + square;
    const float sigma = (std::sqrt(m) - std::sqrt(n)) / rule.alpha;
    const float pull = sigma * w;
    z = (z + g) - pull;
    n = m;
    if (std::fabs(z) <= rule.l1) {
      w = 0;
      return;
    }
    const float sign = z < 0 ? -1.0f : 1.0f;
    const float shrunk = z - sign * rule.l1;
    w = -shrunk / ((rule.beta + std::sqrt(n)) / rule.alpha + rule.l2);
  }
  void Apply(const Momentum& rule, float g) {
    const float kept = rule.momentum * slots[0];
    slots[0] = kept + g;
    const float step = rule.lr * slots[0];
    w = w - step;
  }
  void Apply(const Nesterov& rule, float g) {
    const float kept = rule.momentum * slots[0];
    slots[0] = kept + g;
    const float ahead = rule.momentum * slots[0];
    const float step = rule.lr * (g + ahead);
    w = w - step;
  }
  void Apply(const RmsProp& rule, float g) {
    slots[0] = Mean(slots[0], rule.decay, g * g);
    const float above = rule.lr * g;
    const float below = std::sqrt(slots[0]) + rule.epsilon;
    w = w - above / below;
  }
  void Apply(const Adam& rule, float g) {
    auto& [m, v, s, r] = slots;
    m = Mean(m, rule.beta1, g);
    v = Mean(v, rule.beta2, g * g);
    s = Mean(s, rule.beta1, 1);
    r = Mean(r, rule.beta2, 1);
    const float mean = m / s;
    const float root = std::sqrt(v / r);
    const float above = rule.lr * mean;
    w = w - above / (root + rule.epsilon);
  }
  void Apply(const ProximalSgd& rule, float g) {
    const float step = rule.lr * g;
    w = w - step;
    const float threshold = rule.lr * rule.l1;
    const float shrink = rule.lr * rule.l2;
    if (std::fabs(w) <= threshold) {
      w = 0;
    } else if (w < 0) {
      w = -((-w - threshold) / (1 + shrink));
    } else {
      w = (w - threshold) / (1 + shrink);
    }
  }
  // What SomeExpression says.
  void Apply(const Expression& rule, float g) {
    auto& [n, steps, unused, none] = slots;
    steps = steps + 1;
    const float square = g * g;
    n = n + square;
    const float slowed = rule.params[1].value * steps;
    const float rate = rule.params[0].value / (1 + slowed);
    const float above = rate * g;
    const float below = std::sqrt(n) + 1e-6f;
    if (std::fabs(w) < 0.75f) {
      w = w - above / below;
    } else {
      w = w / 2;
    }
  }

  static float Mean(float mean, float kept, float added) {
    const float old = kept * mean;
    const float part = (1 - kept) * added;
    return old + part;
  }
};

inline Expression SomeExpression() {
  return {.slots = {{"n", 0.1f}},
          .params = {{"lr", 0.25f}, {"decay", 0.5f}},
          .code =
              "n = n + g*g; rate = lr/(1 + decay*step);\n"
              "w = select(abs(w) < 0.75, w - rate*g/(sqrt(n) + 1e-6), w/2)"};
}

// A whole table as a map from key to row.
class ReferenceStore {
 public:
  explicit ReferenceStore(const Schema& schema) : schema_(schema) {}

  void Update(const std::vector<uint64_t>& keys, const std::vector<float>& gradients) {
    std::map<uint64_t, std::vector<float>> sums;
    const bool last_wins = std::holds_alternative<Assign>(schema_.rule);
    for (size_t i = 0; i < keys.size(); ++i) {
      const std::vector<float> gradient(gradients.begin() + i * schema_.dim,
                                        gradients.begin() + (i + 1) * schema_.dim);
      const auto [it, first] = sums.try_emplace(keys[i], gradient);
      for (uint32_t c = 0; c < schema_.dim && !first; ++c) {
        it->second[c] = last_wins ? gradient[c] : it->second[c] + gradient[c];
      }
    }
    for (const auto& [key, sum] : sums) Apply(key, sum);
  }

  std::vector<float> Read(const std::vector<uint64_t>& keys) const {
    std::vector<float> out;
    for (const uint64_t key : keys) {
      const auto it = rows_.find(key);
      for (const ReferenceValue& value : it == rows_.end() ? NewRow(key) : it->second) out.push_back(value.w);
    }
    return out;
  }

  // A row as PageImage has it.
  std::vector<float> Packed(uint64_t key) const {
    const std::vector<ReferenceValue>& row = rows_.at(key);
    const uint32_t slots = SlotsPerValue(schema_.rule);
    std::vector<float> packed;
    for (const ReferenceValue& value : row) packed.push_back(value.w);
    for (uint32_t slot = 0; slot < slots; ++slot) {
      for (const ReferenceValue& value : row) packed.push_back(value.slots[slot]);
    }
    return packed;
  }

  bool Has(uint64_t key) const { return rows_.contains(key); }
  size_t rows() const { return rows_.size(); }

 private:
  std::vector<ReferenceValue> NewRow(uint64_t key) const {
    std::vector<float> values(schema_.dim);
    Fill(schema_.init, schema_.seed, key, 0, absl::MakeSpan(values));
    const Adagrad* adagrad = std::get_if<Adagrad>(&schema_.rule);
    const Expression* expression = std::get_if<Expression>(&schema_.rule);
    float n = adagrad != nullptr ? adagrad->initial_accumulator : 0;
    if (expression != nullptr) n = expression->slots[0].value;
    std::vector<ReferenceValue> row;
    for (const float value : values) row.push_back({.w = value, .slots = {n}});
    return row;
  }

  void Apply(uint64_t key, const std::vector<float>& gradient) {
    auto it = rows_.find(key);
    if (it == rows_.end()) it = rows_.emplace(key, NewRow(key)).first;
    for (uint32_t c = 0; c < schema_.dim; ++c) {
      std::visit([&](const auto& rule) { it->second[c].Apply(rule, gradient[c]); }, schema_.rule);
    }
  }

  Schema schema_;
  std::map<uint64_t, std::vector<ReferenceValue>> rows_;
};

// The inverse of ring::Mix64(x).
inline uint64_t Unmix64(uint64_t x) {
  x = (x ^ (x >> 31) ^ (x >> 62)) * 0x319642b2d24d8ec3u;
  x = (x ^ (x >> 27) ^ (x >> 54)) * 0x96de1b173f119089u;
  return x ^ (x >> 30) ^ (x >> 60);
}

// The key of `table` that has this hash.
inline uint64_t KeyWithHash(TableId table, uint64_t hash) {
  return Unmix64(hash) - ring::Mix64(table.v);
}

// Every rule, with parameters that make its parts matter.
inline std::vector<Rule> AllRules() {
  return {Assign{},
          Add{},
          Sgd{.lr = 0.25f},
          Adagrad{.lr = 0.1f, .epsilon = 1e-6f, .initial_accumulator = 0.1f},
          FtrlProximal{.alpha = 0.3f, .beta = 0.7f, .l1 = 0.05f, .l2 = 0.01f},
          Momentum{.lr = 0.1f, .momentum = 0.8f},
          Nesterov{.lr = 0.1f, .momentum = 0.8f},
          RmsProp{.lr = 0.1f, .decay = 0.7f, .epsilon = 1e-6f},
          Adam{.lr = 0.1f, .beta1 = 0.8f, .beta2 = 0.95f, .epsilon = 1e-6f},
          ProximalSgd{.lr = 0.25f, .l1 = 0.2f, .l2 = 0.5f},
          SomeExpression()};
}

inline std::string NameOf(const Rule& rule) {
  static const char* const kNames[] = {"Assign",       "Add",         "Sgd",       "Adagrad",
                                       "FtrlProximal", "Momentum",    "Nesterov",  "RmsProp",
                                       "Adam",         "ProximalSgd", "Expression"};
  return kNames[rule.index()];
}

}  // namespace paceline::table
