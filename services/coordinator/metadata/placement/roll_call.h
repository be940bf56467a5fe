#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "absl/time/time.h"
#include "paceline/v1/shard.pb.h"
#include "services/coordinator/metadata/facts/context.h"

namespace paceline::coordinator {

// Asks shards directly whether they live, for decisions that need to know it now: a beat may be a second old.
class RollCall {
 public:
  // `on_answer` is told, within the visit, that one has answered.
  RollCall(Context& context, std::function<void()> on_answer)
      : context_(context), on_answer_(std::move(on_answer)) {}

  // Whether this start has answered a question of the last 200 ms. Otherwise it is asked (again, every 100 ms
  // that are wanted).
  bool Lives(const v1::Member& member);

 private:
  struct Asked {
    uint64_t incarnation = 0;
    absl::Time at = absl::InfinitePast();
    absl::Time lived_at = absl::InfinitePast();  // when the last question was asked that it has answered
  };

  void Ask(uint32_t shard, Asked& asked);

  Context& context_;
  const std::function<void()> on_answer_;
  std::map<uint32_t, Asked> asked_;  // by shard
};

}  // namespace paceline::coordinator
