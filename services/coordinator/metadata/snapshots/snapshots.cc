// Takes, lists and deletes snapshots.
#include "services/coordinator/metadata/snapshots/snapshots.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/base/status.h"
#include "libs/base/version.h"
#include "libs/snapshot/manifest.h"
#include "services/coordinator/metadata/facts/text.h"

namespace paceline::coordinator {
namespace {

// "-9f3a01bc".
std::string EndOfNames(uint64_t cluster) {
  return absl::StrCat("-", absl::Hex(cluster >> 32, absl::kZeroPad8));
}

// "ctr-12-9f3a01bc": the job, a number that the cluster uses once, and the cluster, since clusters may share
// a directory.
std::string FolderName(absl::string_view job, uint64_t cut, uint64_t cluster) {
  constexpr size_t kJobBytes = 64;
  std::string name(job.substr(0, kJobBytes));
  for (char& c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_') c = '_';
  }
  return absl::StrCat(name, "-", cut, EndOfNames(cluster));
}

// 0: the snapshot is another cluster's, or was not named by a coordinator.
uint64_t NumberIn(absl::string_view name, uint64_t cluster) {
  uint64_t number = 0;
  if (!snapshot::IsGivenName(name) || !absl::ConsumeSuffix(&name, EndOfNames(cluster))) return 0;
  return absl::SimpleAtoi(name.substr(name.rfind('-') + 1), &number) ? number : 0;
}

// 0: the folder was made. Otherwise it exists already, and no number up to the returned one is free.
absl::StatusOr<uint64_t> MakeFolder(snapshot::Files& files, const std::string& folder, uint64_t cluster) {
  ABSL_ASSIGN_OR_RETURN(const std::vector<std::string> folders, files.Folders());
  if (std::ranges::count(folders, folder) == 0) {
    ABSL_RETURN_IF_ERROR(files.MakeFolder(folder));
    return 0;
  }
  uint64_t highest = 1;
  for (const std::string& name : folders) highest = std::max(highest, NumberIn(name, cluster));
  return highest;
}

}  // namespace

absl::Status Snapshots::CheckKept() const {
  if (context_.options.snapshots != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the coordinator was started without --snapshot-dir; give all shards and coordinators the same "
      "directory");
}

// -- taking one --

absl::StatusOr<Ticket> Snapshots::Create(const v1::CreateSnapshotRequest& request, absl::Time deadline,
                                         const Done<v1::CreateSnapshotReply>& done, bool scheduled) {
  ABSL_RETURN_IF_ERROR(CheckKept());
  const JobRecord* job = context_.facts.FindJob(request.job());
  if (job == nullptr || job->deleting()) {
    return absl::NotFoundError(
        absl::StrCat("job '", request.job(), "' does not exist; see whether its name is right"));
  }
  const uint32_t id = job->id();
  if (request.exact() && request.now()) {
    return absl::InvalidArgumentError("exact, now: expected one of the two at most");
  }
  ABSL_RETURN_IF_ERROR(membership_.CheckNothingLost());
  if (const auto other = creations_.find(id);
      !scheduled && other != creations_.end() && other->second.scheduled) {
    GiveUp(id, absl::UnavailableError("a client asked for a snapshot of the job"));
  }
  if (creations_.contains(id)) {
    return absl::UnavailableError(
        absl::StrCat("job '", request.job(), "': a snapshot of it is being taken; try again"));
  }
  ABSL_ASSIGN_OR_RETURN(const Ticket ticket,
                        waiters_.Await({.subject = Subject::Cut(id),
                                        .deadline = deadline,
                                        .answer = waiters_.Telling<v1::CreateSnapshotReply>(
                                            done, [this, id] { return creations_.at(id).reply; }),
                                        .expired = [this, id] { return ExpiredStatus(id); },
                                        .left = [this, id](bool /*abandoned*/) { Discard(id); }}));
  Creation& creation = creations_[id];
  creation.request = request;
  creation.scheduled = scheduled;
  if (const absl::Status begun = Begin(id); !begun.ok()) GiveUp(id, begun);
  return ticket;
}

// Only this function makes the folder: a late shard must not bring back one that was given up. The directory
// does not go back in time with the cluster's store, so the number may have been used before: an existing
// folder of that number is another snapshot.
absl::Status Snapshots::Begin(uint32_t job, uint64_t above) {
  Creation& creation = creations_.at(job);
  ABSL_RETURN_IF_ERROR(DrawCut(creation, above));
  const uint64_t cluster = context_.facts.cluster();
  const std::string folder = FolderName(creation.request.job(), creation.cut, cluster);
  OnFiles<absl::StatusOr<uint64_t>>(
      [folder, cluster](snapshot::Files& files) { return MakeFolder(files, folder, cluster); },
      [this, job, cut = creation.cut, folder](const absl::StatusOr<uint64_t>& there) {
        const bool made = there.ok() && *there == 0;
        const auto it = creations_.find(job);
        if (it == creations_.end() || it->second.cut != cut) {  // given up meanwhile
          if (made) Delete(folder);
          return;
        }
        if (made) it->second.folder = folder;
        const absl::Status begun = made ? Ask(job, 0) : there.ok() ? Begin(job, *there) : there.status();
        if (!begun.ok()) GiveUp(job, begun);
      });
  return absl::OkStatus();
}

absl::Status Snapshots::DrawCut(Creation& creation, uint64_t above) {
  Changes changes;
  const uint64_t change = context_.facts.NumberIn(changes);
  changes.counters->set_cut(std::max(changes.counters->cut(), above) + 1);
  ABSL_RETURN_IF_ERROR(context_.Commit(changes));
  creation.cut = changes.counters->cut();
  creation.change = change;
  return absl::OkStatus();
}

uint64_t Snapshots::NewestRates(uint32_t job) const {
  uint64_t newest = 0;
  for (const auto& [id, table] : context_.facts.tables()) {
    if (table.job() == job && !table.only_bound()) newest = std::max(newest, table.rule_clock());
  }
  return newest;
}

absl::Status Snapshots::CheckRatesAreSoon(uint32_t job, bool at_work, uint64_t newest) const {
  const uint64_t rates = NewestRates(job);
  if (rates <= newest + (at_work ? kRatesSoon : 0)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "rates of the job's tables are to change at clock ", rates, ", and it is at ", newest,
      "; none is taken until that clock is near, or they change now (paceline table set --now)"));
}

absl::Status Snapshots::Propose(uint32_t job, uint64_t known) {
  ABSL_RETURN_IF_ERROR(DrawCut(creations_.at(job)));
  return Ask(job, known);
}

absl::Status Snapshots::Ask(uint32_t job, uint64_t known) {
  Creation& creation = creations_.at(job);
  const bool at_work = workers_.AnyAtWork(job);
  const uint64_t newest = std::max(known, workers_.NewestClock(job));
  if (creation.scheduled) ABSL_RETURN_IF_ERROR(CheckRatesAreSoon(job, at_work, newest));
  // Changes made while the folder was made may have moved the floor: no fan-out held it below this number.
  if (creation.change != context_.facts.counters().change()) {
    Changes changes;
    creation.change = context_.facts.NumberIn(changes);
    ABSL_RETURN_IF_ERROR(context_.Commit(changes));
  }
  creation.asked = true;
  creation.at_once = creation.request.now() || !at_work;
  if (!at_work) creation.hold_until = std::min(creation.hold_until, context_.now + kHoldJoinsMax);
  creation.hold_joins = !at_work && context_.now < creation.hold_until;
  creation.clock = std::max(creation.proposal.Beyond(newest), NewestRates(job));
  creation.files.clear();
  v1::Change change = ChangeOf(v1::Subject::JOB, job, job, creation.change);
  v1::Change::TakeCut& cut = *change.mutable_cut();
  cut.set_id(creation.cut);
  cut.set_clock(creation.clock);
  cut.set_at_once(creation.at_once);
  cut.set_exact(creation.request.exact());
  cut.set_snapshot(creation.folder);
  fan_outs_.Start(std::move(change));
  return absl::OkStatus();
}

void Snapshots::OnClockPassed(const v1::Change& change, uint64_t clock) {
  const auto it = creations_.find(change.job());
  if (it == creations_.end() || it->second.cut != change.cut().id() || it->second.complete) return;
  it->second.proposal.Refused();
  if (const absl::Status proposed = Propose(change.job(), clock); !proposed.ok())
    GiveUp(change.job(), proposed);
}

void Snapshots::OnReply(const v1::Change& change, const v1::ChangeReply& reply) {
  if (change.has_load()) {
    const JobRecord* job = context_.facts.FindJob(change.job());
    const bool current = job != nullptr && job->has_load() && job->load().id() == change.load().id();
    // If the commit fails the fan-out meets the same failure again.
    if (current && reply.failures_size() > 0) (void)GiveUpLoad(change.job(), reply.failures(0).why());
    return;
  }
  const auto it = creations_.find(change.job());
  if (it == creations_.end() || it->second.cut != change.cut().id() || it->second.complete) return;
  Creation& creation = it->second;
  // The first file counts: it comes from the primary that logged the cut.
  for (const v1::SnapshotFile& file : reply.files()) creation.files.try_emplace(file.segment(), file);
  for (const v1::ChangeReply::Failure& failure : reply.failures()) {
    if (!failure.lost()) {
      return GiveUp(change.job(),
                    absl::FailedPreconditionError(absl::StrCat("the snapshot failed: ", failure.why())));
    }
    if (creation.files.contains(failure.segment())) continue;  // the primary of that time has named its file
    const absl::Status proposed = Propose(change.job(), 0);
    if (!proposed.ok()) GiveUp(change.job(), proposed);
    return;
  }
}

void Snapshots::OnNamedEverywhere(Subject subject) {
  const auto job = static_cast<uint32_t>(subject.id);
  subject.kind == Subject::Kind::kLoad ? FinishLoad(job) : Complete(job);
}

void Snapshots::OnEmptied() {
  std::vector<uint32_t> incomplete;
  for (const auto& [job, creation] : creations_) {
    if (!creation.complete) incomplete.push_back(job);
  }
  for (const uint32_t job : incomplete) {
    GiveUp(job, absl::DataLossError("acknowledged data of the job is gone, which was accepted (paceline "
                                    "recover); start the job again, from its last snapshot"));
  }
  Start();
}

// Segments may have logged the change before the cut, while the catalogue does not show it yet.
bool Snapshots::RatesAreChanging(uint32_t job) const {
  return std::ranges::any_of(context_.facts.rule_changes(), [&](const auto& entry) {
    const v1::Table* table = context_.facts.FindTable(entry.first);
    return table != nullptr && table->job() == job;
  });
}

void Snapshots::Complete(uint32_t job) {
  const auto it = creations_.find(job);
  if (it == creations_.end()) return fan_outs_.Stop(Subject::Cut(job));
  const JobRecord* record = context_.facts.FindJob(job);
  if (record == nullptr || record->deleting()) return GiveUp(job, absl::NotFoundError("the job was deleted"));
  if (RatesAreChanging(job)) return;  // the fan-out calls again after a pause
  Creation& creation = it->second;
  const v1::SnapshotManifest manifest = ManifestOf(job, creation);
  // Rates may have been set meanwhile for a later clock; or workers may have been beyond the clock unknown to
  // the coordinator.
  const bool rates = NewestRates(job) > manifest.clock();
  if (rates || (creation.request.exact() && !manifest.exact())) {
    absl::Status proposed = absl::FailedPreconditionError(
        rates ? absl::StrCat("rates of the job's tables are to change at clock ", NewestRates(job),
                             ", which no worker will reach; change them now (paceline table set --now)")
              : "exact: the job has updates of later clocks, and no worker is active; let it train, or take "
                "one that is not exact");
    if (!creation.at_once) {
      creation.proposal.Refused();
      proposed = Propose(job, manifest.clock());
    }
    if (!proposed.ok()) GiveUp(job, proposed);
    return;
  }
  fan_outs_.Stop(Subject::Cut(job));
  creation.complete = true;
  creation.hold_joins = false;
  OnFiles<absl::Status>(
      [manifest](snapshot::Files& files) {
        absl::Status there = snapshot::CheckFilesThere(files, manifest);
        return there.ok() ? snapshot::WriteManifest(files, manifest) : there;
      },
      [this, job, cut = creation.cut, manifest](const absl::Status& written) {
        OnManifest(job, cut, manifest, written);
      });
  workers_.OnTime();  // held sessions may join now
}

v1::SnapshotManifest Snapshots::ManifestOf(uint32_t job, const Creation& creation) const {
  v1::SnapshotManifest manifest;
  manifest.set_format(snapshot::kFormat);
  manifest.set_name(creation.folder);
  manifest.set_job(creation.request.job());
  manifest.set_ring_bits(static_cast<uint32_t>(context_.facts.ring_bits()));
  manifest.set_cluster(context_.facts.cluster());
  manifest.set_version(std::string(kVersion));
  manifest.set_created_unix_s(context_.options.snapshots->UnixSeconds());
  manifest.set_exact(true);
  manifest.set_data_lost(context_.facts.FindJob(job)->data_lost());
  for (const auto& [segment, file] : creation.files) {
    *manifest.add_files() = file;
    manifest.set_clock(std::max(manifest.clock(), file.clock()));
  }
  // If each segment was cut at once they may stand at different clocks: then some hold more than others.
  for (const v1::SnapshotFile& file : manifest.files()) {
    if (!file.exact() || file.clock() != manifest.clock()) manifest.set_exact(false);
  }
  for (const auto& [id, table] : context_.facts.tables()) {
    if (table.job() == job) *manifest.add_tables() = table;
  }
  return manifest;
}

void Snapshots::OnManifest(uint32_t job, uint64_t cut, const v1::SnapshotManifest& manifest,
                           const absl::Status& written) {
  const auto it = creations_.find(job);
  if (it == creations_.end() || it->second.cut != cut) return;
  if (!written.ok()) return GiveUp(job, written);
  *it->second.reply.mutable_snapshot() = snapshot::InfoOf(manifest);
  ++counters_.taken;
  waiters_.AnswerAll(Subject::Cut(job), absl::OkStatus());
  creations_.erase(it);
}

void Snapshots::GiveUp(uint32_t job, const absl::Status& why) {
  waiters_.AnswerAll(Subject::Cut(job), why);
  Discard(job);
}

void Snapshots::Discard(uint32_t job) {
  auto creation = creations_.extract(job);
  if (creation.empty()) return;
  fan_outs_.Stop(Subject::Cut(job));
  ++counters_.failed;
  if (!creation.mapped().folder.empty()) Delete(creation.mapped().folder);
  workers_.OnTime();  // held sessions may join now
}

// Removes the remains of a snapshot that was given up; if that fails they are listed.
void Snapshots::Delete(const std::string& folder) {
  OnFiles<absl::Status>([folder](snapshot::Files& files) { return snapshot::DeleteSnapshot(files, folder); },
                        [](const absl::Status&) {});
}

// -- those there are --

absl::StatusOr<Ticket> Snapshots::List(const v1::ListSnapshotsRequest& request, absl::Time deadline,
                                       const Done<v1::ListSnapshotsReply>& done) {
  ABSL_RETURN_IF_ERROR(CheckKept());
  using Listing = absl::StatusOr<snapshot::Listing>;
  return RunErrand<v1::ListSnapshotsReply, Listing>(
      deadline, done, [](snapshot::Files& files) { return snapshot::ListSnapshots(files); },
      [this, done, job = request.job()](Ticket, const Listing& listing) {
        if (!listing.ok()) return waiters_.Tell(done, {listing.status()});
        v1::ListSnapshotsReply reply;
        for (const v1::SnapshotManifest& manifest : listing->snapshots) {
          if (job.empty() || manifest.job() == job) *reply.add_snapshots() = snapshot::InfoOf(manifest);
        }
        for (const std::string& problem : listing->problems) reply.add_problems(problem);
        for (const std::string& folder : listing->incomplete) {
          const bool taken = std::ranges::any_of(
              creations_, [&](const auto& creation) { return creation.second.folder == folder; });
          reply.add_problems(
              absl::StrCat(folder, taken ? ": it is being taken"
                                         : ": it is not complete; delete it if nobody takes it now"));
        }
        return waiters_.Tell(done, {std::move(reply)});
      });
}

absl::StatusOr<Ticket> Snapshots::Delete(const v1::DeleteSnapshotRequest& request, absl::Time deadline,
                                         const Done<v1::DeleteSnapshotReply>& done) {
  ABSL_RETURN_IF_ERROR(CheckKept());
  for (const auto& [job, creation] : creations_) {
    if (creation.folder != request.snapshot()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("snapshot '", request.snapshot(), "' is being taken; wait for its end"));
  }
  for (const auto& [id, job] : context_.facts.jobs()) {
    if (!job.has_load() || job.load().snapshot() != request.snapshot()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("snapshot '", request.snapshot(), "' is being loaded; wait for its end"));
  }
  return RunErrand<v1::DeleteSnapshotReply, absl::Status>(
      deadline, done,
      [name = request.snapshot()](snapshot::Files& files) { return snapshot::DeleteSnapshot(files, name); },
      [this, done](Ticket, const absl::Status& deleted) { waiters_.Telling(done)(deleted); });
}

// -- waiting --

absl::Status Snapshots::ExpiredStatus(uint32_t job) const {
  const Creation& creation = creations_.at(job);
  std::string waits = fan_outs_.Waits(Subject::Cut(job));
  if (waits.empty() && creation.asked && !creation.complete && RatesAreChanging(job))
    waits = "a change of rates of the job's tables";
  return absl::DeadlineExceededError(absl::StrCat("the snapshot of job '", creation.request.job(),
                                                  "' was given up: it waits for ",
                                                  waits.empty() ? "--snapshot-dir to answer" : waits));
}

void Snapshots::OnTime() {
  std::vector<uint32_t> deleted;
  std::vector<uint32_t> alone;
  bool released = false;
  for (auto& [job, creation] : creations_) {
    if (creation.hold_joins && creation.hold_until <= context_.now) {
      creation.hold_joins = false;
      released = true;
    }
    const JobRecord* record = context_.facts.FindJob(job);
    if (record == nullptr || record->deleting()) {
      deleted.push_back(job);
    } else if (creation.asked && !creation.complete && !creation.at_once && !workers_.AnyAtWork(job)) {
      alone.push_back(job);  // no worker is left to advance the clocks to the cut's
    }
  }
  for (const uint32_t job : deleted) GiveUp(job, absl::NotFoundError("the job was deleted"));
  if (released) workers_.OnTime();
  for (const uint32_t job : alone) {
    if (const absl::Status proposed = Propose(job, 0); !proposed.ok()) GiveUp(job, proposed);
  }
}

absl::Time Snapshots::NextTry() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [job, creation] : creations_) {
    if (creation.hold_joins) next = std::min(next, creation.hold_until);
  }
  return next;
}

bool Snapshots::HoldsJoins(uint32_t job) const {
  const auto it = creations_.find(job);
  return it != creations_.end() && it->second.hold_joins;
}

}  // namespace paceline::coordinator
