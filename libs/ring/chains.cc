#include "libs/ring/chains.h"

#include <algorithm>
#include <cstdlib>
#include <tuple>

namespace paceline::ring {
namespace {

constexpr int kNoToken = -1;

class Chains {
 public:
  Chains(std::vector<Token>& tokens, std::vector<int64_t>& loads, const Roster& roster,
         absl::FunctionRef<bool(const Token&, int)> may, absl::FunctionRef<void(const Token&, int)> pass)
      : tokens_(tokens), loads_(loads), roster_(roster), may_(may), pass_(pass), held_(loads.size()) {
    std::vector<bool> takes_part(loads.size(), false);
    for (size_t t = 0; t < tokens_.size(); ++t) {
      held_[tokens_[t].holder].push_back(static_cast<int>(t));
      for (int option : tokens_[t].options) takes_part[option] = true;
      lightest_ = std::min(lightest_, tokens_[t].weight);
    }
    for (int i = 0; i < roster_.size(); ++i) {
      if (takes_part[i]) shards_.push_back(i);
    }
  }

  // False: no chain is left.
  bool PassOne() {
    std::vector<int> sources = shards_;
    std::stable_sort(sources.begin(), sources.end(), [this](int a, int b) { return loads_[a] > loads_[b]; });
    for (int source : sources) {
      if (loads_[source] - loads_[sources.back()] <= lightest_) return false;
      if (PassFrom(source)) return true;
    }
    return false;
  }

 private:
  // Breadth first, so that the chain is short.
  bool PassFrom(int source) {
    std::vector<int> via(loads_.size(), kNoToken);  // the token that would be passed to a shard
    std::vector<bool> seen(loads_.size(), false);
    seen[source] = true;
    for (std::vector<int> frontier{source}; !frontier.empty();) {
      std::vector<int> next = Reach(frontier, seen, via);
      int best = kNoToken;
      for (int to : next) {
        seen[to] = true;
        if (Gain(source, to, via) > 0 && (best == kNoToken || Nearer(to, best, via))) best = to;
      }
      if (best != kNoToken) {
        Pass(source, best, via);
        return true;
      }
      frontier = std::move(next);
    }
    return false;
  }

  std::vector<int> Reach(const std::vector<int>& frontier, const std::vector<bool>& seen,
                         std::vector<int>& via) const {
    std::vector<int> next;
    for (int from : frontier) {
      for (int t : held_[from]) {
        for (int to : tokens_[t].options) {
          if (seen[to] || !may_(tokens_[t], to)) continue;
          if (via[to] == kNoToken) next.push_back(to);
          if (via[to] == kNoToken || Rank(t, to) < Rank(via[to], to)) via[to] = t;
        }
      }
    }
    return next;
  }

  // The lower one is the better one to be passed: it evens the two out, or else the ring decides.
  std::tuple<int64_t, uint64_t, uint32_t> Rank(int t, int to) const {
    const Token& token = tokens_[t];
    const int64_t difference = loads_[token.holder] - loads_[to];
    return {std::abs(difference - 2 * token.weight), roster_.Distance(token.segment, to), token.segment};
  }
  bool Nearer(int a, int b, const std::vector<int>& via) const {
    const auto rank = [&](int to) {
      return std::tuple(loads_[to], roster_.Distance(tokens_[via[to]].segment, to), to);
    };
    return rank(a) < rank(b);
  }

  // By how much the chain lessens the sum of squares.
  int64_t Gain(int source, int to, const std::vector<int>& via) const {
    const auto lessening = [this](int shard, int64_t change) {
      return -change * (2 * loads_[shard] + change);
    };
    int64_t passed = 0;  // by the shard at hand to the next one
    int64_t gain = 0;
    while (to != source) {
      const Token& token = tokens_[via[to]];
      gain += lessening(to, token.weight - passed);
      passed = token.weight;
      to = token.holder;
    }
    return gain + lessening(source, -passed);
  }

  void Pass(int source, int to, const std::vector<int>& via) {
    while (to != source) {
      Token& token = tokens_[via[to]];
      const int from = token.holder;
      pass_(token, to);
      std::erase(held_[from], via[to]);
      held_[to].push_back(via[to]);
      token.holder = to;
      loads_[from] -= token.weight;
      loads_[to] += token.weight;
      to = from;
    }
  }

  std::vector<Token>& tokens_;
  std::vector<int64_t>& loads_;
  const Roster& roster_;
  const absl::FunctionRef<bool(const Token&, int)> may_;
  const absl::FunctionRef<void(const Token&, int)> pass_;
  std::vector<std::vector<int>> held_;  // tokens, by shard
  std::vector<int> shards_;             // that some token can be with
  int64_t lightest_ = INT64_MAX;
};

}  // namespace

void PassOn(std::vector<Token>& tokens, std::vector<int64_t>& loads, const Roster& roster,
            absl::FunctionRef<bool(const Token&, int)> may, absl::FunctionRef<void(const Token&, int)> pass) {
  Chains chains(tokens, loads, roster, may, pass);
  while (chains.PassOne()) {
  }
}

}  // namespace paceline::ring
