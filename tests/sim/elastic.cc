#include "tests/sim/elastic.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paceline::sim {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(1);
constexpr absl::Duration kAskAgain = absl::Milliseconds(60);
constexpr absl::Duration kLook = absl::Milliseconds(100);
constexpr absl::Duration kCallsArriveWithin = absl::Seconds(5);
constexpr absl::Duration kComesAgain = absl::Milliseconds(1500);

std::string Names(const std::vector<SimShard*>& shards) {
  std::string text;
  for (const SimShard* shard : shards) absl::StrAppend(&text, " ", const_cast<SimShard*>(shard)->host().name);
  return text;
}

const v1::ShardStatus* Find(const v1::StatusReply& status, const std::string& name) {
  for (const v1::ShardStatus& shard : status.shards()) {
    if (shard.info().name() == name) return &shard;
  }
  return nullptr;
}

}  // namespace

Elastic::Elastic(World& world, SimCoordinator& coordinator, Shards& shards, uint32_t operations)
    : world_(world), coordinator_(coordinator), shards_(shards), operations_(operations) {}

void Elastic::Begin(size_t late) {
  for (size_t s = late; s < shards_.size(); ++s) {
    world_.scheduler.After(world_.Between(absl::Milliseconds(50), absl::Milliseconds(1500)), [this, s] {
      world_.marks.Hit("a shard joins later");
      shards_[s]->Start();
    });
  }
  host_.up = true;
  if (operations_ == 0) return;
  world_.scheduler.After(world_.Between(absl::Milliseconds(50), absl::Milliseconds(400)), [this] { Next(); });
}

bool Elastic::Move() {
  if (stopped_ || !idle_) return false;
  ++operations_;
  Next();
  return true;
}

void Elastic::Stop() {
  stopped_ = true;
}

void Elastic::Next() {
  if (stopped_ || operations_ == 0) return;
  --operations_;
  idle_ = false;
  std::vector<SimShard*> shards;
  for (uint64_t n = 1 + world_.Below(2); n > 0; --n)
    shards.push_back(shards_[world_.Below(shards_.size())].get());
  if (shards.front() == shards.back()) shards.resize(1);
  Drain(std::move(shards), /*cancel=*/false);
}

void Elastic::Ask(const v1::DrainShardsRequest& request,
                  std::function<void(absl::StatusOr<v1::DrainShardsReply>)> done) {
  world_.calls.Call<v1::DrainShardsReply>(
      host_, coordinator_.host(), kTimeout,
      [this, request](auto answer) {
        coordinator_.Visit([&](auto& core) {
          absl::StatusOr<v1::DrainShardsReply> reply = core.DrainShards(request);
          if (reply.ok()) NoteMeant(request, core.Status());
          answer(std::move(reply));
        });
      },
      std::move(done));
}

// A name may be another shard's by the time that the answer comes.
void Elastic::NoteMeant(const v1::DrainShardsRequest& request,
                        const absl::StatusOr<v1::StatusReply>& status) {
  if (!status.ok()) return;
  for (const std::string& name : request.shards()) {
    const v1::ShardStatus* known = Find(*status, name);
    if (known != nullptr) meant_.try_emplace({request.number(), name}, known->info().shard());
  }
}

// What the coordinator refuses does not begin: a name may not have joined, the rest may be too few.
void Elastic::Drain(std::vector<SimShard*> shards, bool cancel) {
  doing_ = absl::StrCat(cancel ? "cancel the drain of" : "drain", Names(shards));
  world_.Trace(absl::StrCat("elastic: ", doing_));
  v1::DrainShardsRequest request;
  for (SimShard* shard : shards) request.add_shards(shard->host().name);
  request.set_cancel(cancel);
  request.set_number(++requests_);  // it is the only one that asks
  request.set_nonce(requests_);
  for (SimShard* shard : shards) told_.erase(shard->host().name);  // until the answer it may be either
  Send(request, shards);
}

void Elastic::Send(const v1::DrainShardsRequest& request, const std::vector<SimShard*>& shards) {
  Ask(request, [this, request, shards](absl::StatusOr<v1::DrainShardsReply> reply) {
    world_.Trace(absl::StrCat("elastic: ", doing_, ": ", reply.status().ToString()));
    if (absl::IsUnavailable(reply.status()) || absl::IsDeadlineExceeded(reply.status())) {
      return world_.scheduler.After(kAskAgain, [this, request, shards] { Send(request, shards); });
    }
    OnAnswer(request, reply.status());
    const bool cancel = request.cancel();
    if (cancel) OnCancelled(shards);
    if (!reply.ok()) world_.marks.Hit("a drain is refused");
    if (cancel || !reply.ok()) return Ended();
    OnDraining(shards);
  });
}

// Each request that was taken comes once more, and as all calls of `world_.calls` they come late and twice.
void Elastic::OnAnswer(const v1::DrainShardsRequest& request, const absl::Status& status) {
  if (absl::IsAborted(status))
    world_.verdict.Violated("Meant", absl::StrCat("the newest request: ", doing_, ": ", status.ToString()));
  if (!status.ok()) return;
  for (const std::string& name : request.shards()) {
    const auto meant = meant_.find({request.number(), name});
    told_[name] = {.drains = !request.cancel()};
    if (meant != meant_.end()) told_[name].shard = meant->second;
  }
  world_.scheduler.After(kComesAgain, [this, request] { Repeat(request); });
}

// Later than any pause before a cancellation.
void Elastic::Repeat(const v1::DrainShardsRequest& request) {
  if (coordinator_.core() == nullptr || coordinator_.aged() || coordinator_.host().Paused(world_.Now()))
    return;
  world_.Trace(absl::StrCat("elastic: request ", request.number(), " comes again"));
  world_.marks.Hit("a drain is asked for again, late");
  coordinator_.Visit([&](auto& core) {
    const absl::Status again = core.DrainShards(request).status();
    if (!absl::IsAborted(again) && !absl::IsNotFound(again)) return;
    world_.verdict.Violated("Meant", absl::StrCat("the second answer to a drain: ", again.ToString()));
  });
}

void Elastic::Check(const v1::StatusReply& status) {
  // One that may go is forgotten when it is silent, and comes back as another shard.
  for (auto& [name, told] : told_) {
    const v1::ShardStatus* known = Find(status, name);
    if (known != nullptr && !told.shard.has_value()) told.shard = known->info().shard();
  }
  std::erase_if(told_, [&](const auto& told) {
    const v1::ShardStatus* known = Find(status, told.first);
    return known == nullptr || told.second.shard != known->info().shard();
  });
  for (const auto& [name, told] : told_) {
    const bool drains = Find(status, name)->has_drain();
    if (told.drains == drains) continue;
    world_.verdict.Violated("Meant", absl::StrCat(name, drains ? " drains" : " does not drain",
                                                  ", and the last request said otherwise"));
  }
}

void Elastic::OnCancelled(const std::vector<SimShard*>& shards) {
  world_.marks.Hit("a drain is cancelled");
  for (SimShard* shard : shards) StartIfEmptied(*shard);
  // A call to mark the folder may still be under way. Another drain may have begun by then, and be complete.
  world_.scheduler.After(kCallsArriveWithin, [this, shards] {
    for (SimShard* shard : shards) {
      const auto told = told_.find(shard->host().name);
      if (told != told_.end() && !told->second.drains) StartIfEmptied(*shard);
    }
  });
}

// One whose drain was complete serves nothing until it is started again.
void Elastic::StartIfEmptied(SimShard& shard) {
  if (!shard.up() || !shard.shard().view()->emptied) return;
  world_.marks.Hit("a drain is cancelled when it is complete");
  shard.TakeAway(/*keep_disk=*/true);
  shard.StartNew();
}

void Elastic::OnDraining(const std::vector<SimShard*>& shards) {
  if (!world_.Chance(0.4)) return AwaitMayGo(shards);
  world_.scheduler.After(world_.Between(absl::ZeroDuration(), absl::Milliseconds(1200)),
                         [this, shards] { Drain(shards, /*cancel=*/true); });
}

void Elastic::Look(std::function<void(const v1::StatusReply&)> then) {
  world_.calls.Call<v1::StatusReply>(
      host_, coordinator_.host(), kTimeout,
      [this](auto answer) {
        if (coordinator_.aged()) return answer(absl::UnavailableError("its store is an older copy"));
        coordinator_.Visit([&](auto& core) { answer(core.Status()); });
      },
      [this, then = std::move(then)](absl::StatusOr<v1::StatusReply> status) {
        if (status.ok()) Check(*status);
        if (status.ok()) return then(*status);
        world_.scheduler.After(kLook, [this, then] { Look(then); });
      });
}

void Elastic::AwaitMayGo(const std::vector<SimShard*>& shards) {
  doing_ = absl::StrCat("wait until they may go:", Names(shards));
  if (stopped_) return Drain(shards, /*cancel=*/true);
  Look([this, shards](const v1::StatusReply& status) {
    const bool all = std::ranges::all_of(shards, [&](SimShard* shard) {
      const v1::ShardStatus* known = Find(status, shard->host().name);
      return known == nullptr || known->drain().may_go();
    });
    if (!all) return world_.scheduler.After(kLook, [this, shards] { AwaitMayGo(shards); });
    for (SimShard* shard : shards) TakeAway(*shard);
    AwaitForgotten(shards);
  });
}

void Elastic::TakeAway(SimShard& shard) {
  const bool keep = world_.Chance(0.3);
  world_.Trace(absl::StrCat("elastic: ", shard.host().name, " is taken away", keep ? "" : ", with its disk"));
  world_.marks.Hit("a drained shard is taken away");
  shard.TakeAway(keep);
}

void Elastic::AwaitForgotten(const std::vector<SimShard*>& shards) {
  doing_ = absl::StrCat("wait until they are forgotten:", Names(shards));
  Look([this, shards](const v1::StatusReply& status) {
    const bool none = std::ranges::none_of(
        shards, [&](SimShard* shard) { return Find(status, shard->host().name) != nullptr; });
    for (SimShard* shard : shards) {
      const v1::ShardStatus* known = Find(status, shard->host().name);
      if (known != nullptr && !known->has_drain()) Remove(*shard);
    }
    if (!none) return world_.scheduler.After(kLook, [this, shards] { AwaitForgotten(shards); });
    for (SimShard* shard : shards) {
      told_.erase(shard->host().name);
      shard->StartNew();
    }
    world_.marks.Hit("the name of a drained shard comes back");
    Ended();
  });
}

// A call of its last start to join came late, after it was forgotten: the coordinator has it as a new shard,
// which does not live.
void Elastic::Remove(SimShard& shard) {
  if (coordinator_.core() == nullptr || coordinator_.host().Paused(world_.Now())) return;
  world_.Trace(absl::StrCat("elastic: ", shard.host().name, " has joined though it is gone; it is removed"));
  v1::RemoveShardRequest request;
  request.set_shard(shard.host().name);
  coordinator_.Visit([&](auto& core) { (void)core.RemoveShard(request); });
}

void Elastic::Ended() {
  doing_ = "nothing";
  idle_ = true;
  world_.scheduler.After(world_.Between(absl::Milliseconds(10), absl::Milliseconds(300)), [this] { Next(); });
}

}  // namespace paceline::sim
