#include "tests/sim/pauses.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace paceline::sim {
namespace {

constexpr uint32_t kShards = 3;  // before it grows, and after it has shrunk
constexpr int kRingBits = 5;
constexpr absl::Duration kMost = absl::Seconds(60);
// Links of a quiet data centre: what is left is what the protocol waits for.
constexpr Latency kLatency{.shortest = absl::Microseconds(200), .usual = absl::Milliseconds(1), .slow = 0};

coordinator::Options OptionsFor(uint32_t replicas) {
  coordinator::Options options;
  options.shards = kShards;
  options.ring_bits = kRingBits;
  options.replicas = replicas;
  options.new_cluster = 1;
  options.moves_per_shard = 8;  // none may wait for another, whatever the pace
  return options;
}

bool Seen(absl::Time time) {
  return time != absl::InfiniteFuture();
}

double Ms(absl::Duration duration) {
  return absl::ToDoubleMilliseconds(duration);
}

// The median and the largest of what `of` says of the swaps.
template <class Of>
std::string Line(const std::vector<Pauses::Swap>& swaps, const char* what, const Of& of) {
  std::vector<double> all;
  for (const Pauses::Swap& swap : swaps) all.push_back(Ms(of(swap)));
  std::ranges::sort(all);
  return absl::StrFormat("  %-40s %7.2f %7.2f %7.2f\n", what, all[all.size() / 2], all[all.size() * 9 / 10],
                         all.back());
}

}  // namespace

Pauses::Pauses(const Setup& setup)
    : setup_(setup),
      world_(setup.seed, uint32_t{1} << kRingBits),
      coordinator_(world_, OptionsFor(setup.replicas)),
      open_(size_t{1} << kRingBits) {
  world_.invariants.durable = setup.durable;
  world_.network.latency = world_.calls.latency = kLatency;
  for (uint32_t s = 0; s < 2 * kShards; ++s) {
    shards_.push_back(std::make_unique<SimShard>(world_, coordinator_, s, setup.durable, setup.durable));
  }
  prober_ = std::make_unique<Prober>(world_, coordinator_);
  prober_->on_pulled = [this](uint32_t segment, absl::Duration took) {
    if (moving_) pulls_.push_back(took);
    Swap& swap = open_[segment];
    swap.longest = std::max(swap.longest, took);
  };
  prober_->on_refused = [this](const v1::Refusal& refusal) {
    open_[refusal.segment()]
        .refusals[v1::Refusal::Reason_Name(refusal.reason()) + ": " + refusal.message()]++;
  };
}

Pauses::~Pauses() {
  prober_->Stop();
  world_.network.Shut();
  coordinator_.Kill();
  world_.scheduler.Clear();
}

SimShard& Pauses::Of(uint32_t shard) {
  return **std::ranges::find_if(shards_,
                                [&](const auto& known) { return known->self().shard == ShardId(shard); });
}

// Every one of so many shards has its share of the primaries, and no segment has a member too many.
bool Pauses::Balanced(size_t shards) const {
  std::map<uint32_t, int> primaries;
  for (const v1::SegmentConfig& config : coordinator_.map().segments()) {
    primaries[config.primary().shard()] += 1;
    if (config.replicas_size() != static_cast<int>(setup_.replicas)) return false;
  }
  const auto least = static_cast<int>((uint32_t{1} << kRingBits) / shards);
  return primaries.size() == shards &&
         std::ranges::all_of(primaries, [&](const auto& of) { return of.second >= least; });
}

void Pauses::Look(uint32_t segment) {
  const v1::SegmentConfig& config = coordinator_.map().segments(static_cast<int>(segment));
  const absl::Time now = world_.Now();
  const auto host = [&](uint32_t shard) -> shard::SegmentHost& {
    return Of(shard).shard().context().host(SegmentId(segment));
  };
  const auto note = [&](absl::Time& when, bool seen) {
    if (seen && !Seen(when)) when = now;
  };
  Swap& swap = open_[segment];
  if (swap.epoch == 0) {
    const log::Primary* old = host(primary_[segment]).primary();
    if (old == nullptr || !old->handing_over() || old->MayAnswer()) return;
    swap = {.segment = segment, .epoch = config.epoch() + 1, .asked = now};
  }
  if (config.primary().shard() == primary_[segment]) return;
  note(swap.committed, true);
  shard::SegmentHost& heir = host(config.primary().shard());
  const bool told = prober_->EpochOf(segment) >= swap.epoch;
  if (told && !Seen(swap.told)) swap.linked = prober_->LinkedWith(Of(config.primary().shard()).host().name);
  note(swap.told, told);
  note(swap.stepped_down, host(primary_[segment]).epoch().v >= swap.epoch);
  log::Primary* primary = heir.primary();
  note(swap.named, primary != nullptr);
  note(swap.leased, primary != nullptr && primary->MayAnswer());
  note(swap.serves,
       Seen(swap.leased) && primary != nullptr && primary->replicas().committed() >= primary->took_over());
  // What was asked before the swap ended has been answered by now.
  if (!Seen(swap.serves) || !Seen(swap.told) ||
      now < std::max(swap.serves, swap.told) + absl::Milliseconds(60))
    return;
  done_.push_back(std::exchange(swap, {}));
  primary_[segment] = config.primary().shard();
}

void Pauses::Step() {
  if (!world_.scheduler.RunOne()) world_.verdict.Violated("Progress", "nothing is left to do");
  for (uint32_t s = 0; s < primary_.size(); ++s) Look(s);
}

void Pauses::Drain() {
  v1::DrainShardsRequest request;
  for (uint32_t s = kShards; s < 2 * kShards; ++s) request.add_shards(shards_[s]->host().name);
  request.set_number(1);
  request.set_nonce(1);
  coordinator_.Visit([&](coordinator::CoordinatorCore& core) {
    const auto reply = core.DrainShards(request);
    if (!reply.ok()) world_.verdict.Violated("Progress", reply.status().ToString());
  });
}

std::vector<Pauses::Swap> Pauses::Run() {
  const auto run = [&](const std::function<bool()>& done) {
    const absl::Time end = world_.Now() + kMost;
    while (world_.verdict.ok() && !done()) {
      Step();
      if (world_.Now() > end) world_.verdict.Violated("Progress", "it takes too long");
    }
  };
  const auto quiet = [&](absl::Duration lasts) {
    run([&, end = world_.Now() + lasts] { return world_.Now() > end; });
  };
  coordinator_.Start();
  for (uint32_t s = 0; s < kShards; ++s) shards_[s]->Start();
  run([&] { return coordinator_.map().segments_size() > 0 && Balanced(kShards); });
  prober_->Begin();
  run([&] { return prober_->ready(); });
  quiet(absl::Seconds(1));
  for (const v1::SegmentConfig& config : coordinator_.map().segments()) {
    primary_.push_back(config.primary().shard());
  }
  moving_ = true;
  for (uint32_t s = kShards; s < 2 * kShards; ++s) shards_[s]->Start();
  run([&] { return Balanced(2 * kShards); });
  quiet(absl::Milliseconds(200));
  Drain();
  run([&] { return Balanced(kShards); });
  quiet(absl::Milliseconds(200));
  return done_;
}

std::string Pauses::Describe(const std::vector<Swap>& swaps) {
  std::string text = "  ms of virtual time                        median     p90    most\n";
  const auto between = [&](const char* what, auto from, auto to) {
    absl::StrAppend(&text, Line(swaps, what, [&](const Swap& swap) {
      return std::max(swap.*to - swap.*from, absl::ZeroDuration());
    }));
  };
  between("asked -> committed", &Swap::asked, &Swap::committed);
  between("committed -> the heir knows", &Swap::committed, &Swap::named);
  between("committed -> the old primary knows", &Swap::committed, &Swap::stepped_down);
  between("the heir knows -> it may answer", &Swap::named, &Swap::leased);
  between("it may answer -> it serves", &Swap::leased, &Swap::serves);
  between("asked -> the heir serves", &Swap::asked, &Swap::serves);
  between("committed -> the client knows", &Swap::committed, &Swap::told);
  between("the client knows -> the heir serves", &Swap::told, &Swap::serves);
  absl::StrAppend(&text, Line(swaps, "the longest pull", [](const Swap& swap) { return swap.longest; }));
  absl::StrAppend(&text, Line(swaps, "  of it beyond that the heir serves", [](const Swap& swap) {
    return swap.longest - (std::max(swap.serves, swap.told) - swap.asked);
  }));
  int dialed = 0;
  std::map<std::string, int> refusals;
  for (const Swap& swap : swaps) {
    dialed += swap.linked ? 0 : 1;
    for (const auto& [why, times] : swap.refusals) {
      std::string kind;
      for (const char c : why) kind += absl::ascii_isdigit(static_cast<unsigned char>(c)) ? '#' : c;
      refusals[kind] += times;
    }
  }
  absl::StrAppend(&text, "  ", swaps.size(), " swaps; ", dialed,
                  " times the client had no stream to the heir\n");
  for (const auto& [why, times] : refusals)
    absl::StrAppend(&text, "  refused ", times, " times: ", why, "\n");
  return text;
}

}  // namespace paceline::sim
