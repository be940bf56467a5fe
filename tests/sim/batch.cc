#include "tests/sim/batch.h"

namespace paceline::sim {
namespace {

// Rare branches that a batch must have taken.
constexpr const char* kMarks[] = {
    "a break loses frames",
    "a cached row holds a push that its certificate does not",
    "a client fails: ABORTED",
    "a clock of several workers is folded",
    "a base is written while records arrive",
    "a disk fails and works again",
    "a disk of a member has less than another one's",
    "a disk's log is cut",
    "a drain is cancelled",
    "a flush sends what was held back",
    "a drained shard is taken away",
    "a deletion is repeated when another job has the name",
    "a dropped table is opened again",
    "a job is deleted",
    "a job is replaced",
    "a job snapshot becomes a job",
    "a job snapshot fails",
    "a job snapshot is complete",
    "a job snapshot is complete after a takeover in between",
    "a job snapshot is cut again",
    "a job snapshot is exact",
    "a job snapshot is not exact",
    "a map overtakes a change",
    "a map travels as what has changed",
    "a part gets its number when it is sent",
    "changes of several maps travel as one",
    "a join is refused",
    "a grant waits for the disk",
    "a part is sent again on its stream",
    "a part is sent again that is applied already",
    "a primary is handed over by load",
    "a push brings its rows back",
    "a push does not fit its value bound",
    "a read ends at its deadline",
    "a read is all cached",
    "a read is partly cached",
    "a row has not changed since",
    "a read of a dropped table is refused",
    "a read overtakes the reader's own part",
    "a read waits for a worker",
    "a segment moves by load",
    "a session is closed while it joins",
    "a shard does not start for its disk",
    "a shard ends with all on its disk",
    "a shard joins later",
    "a shard leaves and ends",
    "a shard refuses a damaged disk",
    "a shard whose disk fails hands over",
    "a start finds nothing whole of a segment",
    "a session is evicted",
    "a stranger pushes under another's number",
    "a subscriber is told of changed rows",
    "a subscriber is told that its set is gone",
    "a stranger says to be primary",
    "a stream is broken for lent values",
    "a table is reduced",
    "a table rests in a cache",
    "a bound changes",
    "a bound has grown",
    "a tick does not speak for a segment",
    "a tick needs no grant",
    "keys are named by their list",
    "a user has a list of its keys",
    "a tick rides on a part",
    "a tick waits for its parts",
    "a worker joins at a later clock",
    "a worker out of work ticks on",
    "all members of a segment end, and a disk goes on",
    "an empty part takes a refused number",
    "an update is held back",
    "an example is trained twice",
    "an item is begun from its mark on",
    "an item is given back in the middle",
    "an older folder is refused",
    "an older store is refused",
    "an eviction leaves parts that are not folded",
    "an exact read is answered after its tick was made",
    "an update follows older rates",
    "clients wait for a disk",
    "closed before it was opened here",
    "new rates are proposed again",
    "pushes share a frame",
    "rates change at a clock",
    "rates change at once",
    "records that were not replicated come to nothing",
    "refused: pull FENCED",
    "refused: pull MOVED",
    "refused: pull UNAVAILABLE",
    "refused: push FENCED",
    "refused: push INVALID",
    "refused: push MOVED",
    "refused: push OUT_OF_ORDER",
    "refused: push OVER_BUDGET",
    "refused: push UNAVAILABLE",
    "segments are handed over",
    "the coordinator finds that it was paused",
    "the name of a drained shard comes back",
    "the only member of a segment ends, and its disk goes on",
    "the min clock goes to the end of a job",
    "wished: ADD",
    "workers go on in a job that was made of a snapshot",
    "work of an ended session is begun again",
    "wished: DROP",
    "wished: KEEP",
    "wished: PROMOTE",
    "wished: SWAP",
    "wishes are carried",
};
// Those that only a batch of so many seeds must have taken.
constexpr uint64_t kManySeeds = 1000;
constexpr const char* kRareMarks[] = {
    "a primary that was replaced writes on",
};

}  // namespace

std::vector<std::string> BatchOutcome::MarksMissed() const {
  std::vector<std::string> missed;
  for (const char* mark : kMarks) {
    if (marks.Of(mark) == 0) missed.emplace_back(mark);
  }
  if (seeds < kManySeeds) return missed;
  for (const char* mark : kRareMarks) {
    if (marks.Of(mark) == 0) missed.emplace_back(mark);
  }
  return missed;
}

std::vector<std::string> BatchOutcome::FaultsMissed() const {
  std::vector<std::string> missed;
  for (int kind = 0; kind < kFaultKinds; ++kind) {
    const std::string name = NameOf(static_cast<FaultKind>(kind));
    if (!faults_by_kind.contains(name)) missed.push_back(name);
  }
  for (const char* name : {"call doubled", "call late", "call lost", "reply lost"}) {
    if (!faults_by_kind.contains(name)) missed.emplace_back(name);
  }
  return missed;
}

Outcome RunSeed(uint64_t seed, Bug bug, const std::function<void(const std::string&)>& trace) {
  planted_bug = bug;
  Outcome outcome;
  {
    Cluster cluster(Plan::Of(seed));
    if (trace) cluster.Watch(trace);
    outcome = cluster.Run();
  }
  planted_bug = Bug::kNone;
  return outcome;
}

BatchOutcome RunBatch(uint64_t first, uint64_t last, Bug bug,
                      const std::function<bool(uint64_t seed, const Outcome&)>& on_seed, bool disks) {
  BatchOutcome batch;
  for (uint64_t seed = first; seed <= last; ++seed) {
    if (disks && !Plan::WithoutFaults(seed).disks) continue;
    const Outcome outcome = RunSeed(seed, bug);
    uint64_t faults = 0;
    for (const auto& [kind, times] : outcome.faults) {
      faults += times;
      batch.faults_by_kind[kind] += times;
    }
    ++batch.seeds;
    batch.full_seeds += outcome.parts >= kPartsMin && faults >= kFaultsMin ? 1 : 0;
    batch.parts += outcome.parts;
    batch.steps += outcome.steps;
    batch.virtual_time += outcome.took;
    batch.marks.Add(outcome.marks);
    if (!outcome.violations.empty()) batch.failed.push_back({seed, outcome.violations});
    if (!on_seed(seed, outcome)) break;
  }
  return batch;
}

}  // namespace paceline::sim
