#include "tools/paceline/snapshot.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "libs/base/status.h"
#include "libs/base/text.h"
#include "libs/snapshot/manifest.h"
#include "libs/snapshot/store/directory.h"
#include "libs/world/system_random.h"
#include "libs/world/wall_clock.h"
#include "tools/paceline/arrays.h"
#include "tools/paceline/coordinator.h"
#include "tools/paceline/json.h"
#include "tools/paceline/lists.h"
#include "tools/paceline/say.h"
#include "tools/paceline/snapshot_export.h"
#include "tools/paceline/snapshot_import.h"

namespace paceline::tool {
namespace {

absl::Duration Timeout(const SnapshotOptions& options) {
  return absl::Seconds(options.timeout_s);
}

std::string Text(const v1::SnapshotInfo& info) {
  return absl::StrCat("snapshot ", info.name(), " of job '", info.job(), "': clock ", info.clock(),
                      info.exact() ? ", exact, " : ", not exact, ", info.rows(), " rows, ", info.bytes(),
                      " bytes",
                      info.held_back().empty() ? "" : "; without what clients may have held back of ",
                      absl::StrJoin(info.held_back(), ", "), info.data_lost().empty() ? "" : "; DATA LOST ",
                      info.data_lost(), "\n");
}

std::string Calendar(int64_t unix_s) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::FromUnixSeconds(unix_s), absl::LocalTimeZone());
}

std::string Text(const v1::SnapshotScheduleInfo& info) {
  const v1::SnapshotSchedule& schedule = info.schedule();
  const std::string every = schedule.every_clocks() > 0
                                ? absl::StrCat(schedule.every_clocks(), " clocks")
                                : absl::FormatDuration(absl::Seconds(schedule.every_s()));
  std::string text = absl::StrCat("schedule of job '", info.job(), "': every ", every, ", the last ",
                                  schedule.keep(), " are kept, there are ", info.snapshots_size());
  if (info.last_unix_s() > 0)
    absl::StrAppend(&text, "; the last one was complete at ", Calendar(info.last_unix_s()));
  if (!info.last_failure().empty()) absl::StrAppend(&text, "; since then: ", info.last_failure());
  return text + "\n";
}

// Of one that was made: its name alone, for what reads the output, and the rest of it for people.
int PrintNew(const v1::SnapshotInfo& info, const SnapshotOptions& options) {
  if (options.json) return Print(Json(info));
  std::fputs(Text(info).c_str(), stderr);
  return Print(info.name() + "\n");
}

int Create(const SnapshotOptions& options) {
  v1::CreateSnapshotRequest request;
  request.set_job(options.job);
  request.set_exact(options.exact);
  request.set_now(options.now);
  const auto created = Coordinator(options.coordinator)
                           .Ask(&v1::Coordinator::Stub::CreateSnapshot, std::move(request), Timeout(options));
  if (!created.ok()) return Complain(created.status(), options.coordinator);
  return PrintNew(created->snapshot(), options);
}

int List(const SnapshotOptions& options) {
  v1::ListSnapshotsRequest request;
  request.set_job(options.job);
  const auto list = Coordinator(options.coordinator)
                        .Ask(&v1::Coordinator::Stub::ListSnapshots, std::move(request), Timeout(options));
  if (!list.ok()) return Complain(list.status(), options.coordinator);
  for (const std::string& problem : list->problems()) (void)Complain(problem);
  if (options.json) return Print(Json(*list));
  // The oldest first; those of one second by their names, in which numbers grow.
  std::vector<v1::SnapshotInfo> snapshots(list->snapshots().begin(), list->snapshots().end());
  std::ranges::sort(snapshots, {}, [](const v1::SnapshotInfo& info) {
    return std::tuple(info.created_unix_s(), info.name().size(), info.name());
  });
  std::string text;
  for (const v1::SnapshotInfo& info : snapshots) {
    absl::StrAppend(&text, Calendar(info.created_unix_s()), "  ", Text(info));
  }
  for (const v1::SnapshotScheduleInfo& schedule : list->schedules()) absl::StrAppend(&text, Text(schedule));
  return Print(text.empty() ? "No snapshots.\n" : text);
}

absl::StatusOr<v1::SnapshotSchedule> ScheduleOf(const SnapshotOptions& options) {
  v1::SnapshotSchedule schedule;
  schedule.set_every_clocks(options.every_clocks);
  schedule.set_keep(options.keep);
  if (options.every.empty()) return schedule;
  absl::Duration every;
  const bool parsed = absl::ParseDuration(options.every, &every);
  if (!parsed || every < absl::Seconds(1) || every > absl::Hours(24 * 366)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--every: '", options.every, "'; expected from 1s to a year, such as 10m or 1h30m"));
  }
  schedule.set_every_s(static_cast<uint32_t>(absl::ToInt64Seconds(every)));
  return schedule;
}

int Schedule(const SnapshotOptions& options) {
  v1::ScheduleSnapshotsRequest request;
  request.set_job(options.job);
  if (!options.off) {
    const absl::StatusOr<v1::SnapshotSchedule> schedule = ScheduleOf(options);
    if (!schedule.ok()) return Complain(schedule.status().message());
    *request.mutable_schedule() = *schedule;
  }
  const auto set = Coordinator(options.coordinator)
                       .Ask(&v1::Coordinator::Stub::ScheduleSnapshots, std::move(request), Timeout(options));
  if (!set.ok()) return Complain(set.status(), options.coordinator);
  if (options.json) return Print(Json(set->schedule()));
  if (options.off) return Print(absl::StrCat("job '", options.job, "' has no schedule any more\n"));
  return Print(Text(set->schedule()));
}

int Delete(const SnapshotOptions& options) {
  v1::DeleteSnapshotRequest request;
  request.set_snapshot(options.snapshot);
  const auto deleted = Coordinator(options.coordinator)
                           .Ask(&v1::Coordinator::Stub::DeleteSnapshot, std::move(request), Timeout(options));
  if (!deleted.ok()) return Complain(deleted.status(), options.coordinator);
  if (options.json) return Print(Json(*deleted));
  return Print(absl::StrCat("snapshot ", options.snapshot, " is deleted\n"));
}

absl::StatusOr<v1::RestoreSnapshotReply> DoRestore(const SnapshotOptions& options) {
  Coordinator coordinator(options.coordinator);
  v1::RestoreSnapshotRequest request;
  request.set_snapshot(options.snapshot);
  request.set_job(options.job);
  request.set_nonce(world::SystemRandom().Next());
  if (options.replace) {  // the job that has the name now, and no later one
    ABSL_ASSIGN_OR_RETURN(const v1::StatusReply status, coordinator.Status(Timeout(options)));
    ABSL_ASSIGN_OR_RETURN(const auto list,
                          coordinator.Ask(&v1::Coordinator::Stub::ListSnapshots, {}, Timeout(options)));
    for (const v1::SnapshotInfo& info : list.snapshots()) {
      if (request.job().empty() && info.name() == request.snapshot()) request.set_job(info.job());
    }
    const v1::JobStatus* job = FindJob(status, request.job());
    request.set_replace(job != nullptr);
    request.set_replaces(job == nullptr ? 0 : job->job());
  }
  return coordinator.Ask(&v1::Coordinator::Stub::RestoreSnapshot, std::move(request), Timeout(options));
}

int Restore(const SnapshotOptions& options) {
  const absl::StatusOr<v1::RestoreSnapshotReply> restored = DoRestore(options);
  if (!restored.ok()) {
    const bool exists = absl::IsAlreadyExists(restored.status());
    const int code = Complain(restored.status(), options.coordinator);
    if (exists) std::fputs("  (--job NAME, or --replace)\n", stderr);
    return code;
  }
  if (options.json) return Print(Json(*restored));
  return Print(absl::StrCat("snapshot ", options.snapshot, " is restored; workers start at clock ",
                            restored->clock(), "\n"));
}

// By the name of `file`, unless it is stated.
absl::StatusOr<bool> IsNpz(const SnapshotOptions& options, const std::string& file) {
  if (!options.format.empty()) return options.format == "npz";
  if (absl::EndsWith(file, ".npz")) return true;
  if (absl::EndsWith(file, ".safetensors")) return false;
  return absl::InvalidArgumentError(
      absl::StrCat(file,
                   ": the name does not tell the format; expected NAME.npz (numpy.load) or NAME.safetensors "
                   "(safetensors.numpy.load_file, safetensors.torch.load_file), or --format"));
}

absl::StatusOr<v1::SnapshotInfo> DoExport(const SnapshotOptions& options) {
  ABSL_ASSIGN_OR_RETURN(const bool npz, IsNpz(options, options.out));
  if (!options.force && std::filesystem::exists(std::filesystem::symlink_status(options.out))) {
    return absl::AlreadyExistsError(absl::StrCat(options.out, ": exists; --force replaces it"));
  }
  ABSL_ASSIGN_OR_RETURN(const std::unique_ptr<snapshot::Files> files,
                        snapshot::OpenDirectoryToRead(options.snapshot_dir));
  ABSL_ASSIGN_OR_RETURN(const v1::SnapshotManifest manifest,
                        snapshot::ReadManifest(*files, options.snapshot));
  if (!manifest.data_lost().empty()) {
    (void)Complain(
        absl::StrCat("warning: snapshot ", manifest.name(), " lacks data: ", manifest.data_lost()));
  }
  ABSL_RETURN_IF_ERROR(ExportSnapshot(
      *files, manifest,
      {.npz = npz, .slots = options.slots, .tables = options.tables, .replace = options.force}, options.out));
  return snapshot::InfoOf(manifest);
}

absl::StatusOr<v1::SnapshotManifest> ReadSchemas(const std::string& path) {
  v1::SnapshotManifest schemas;
  if (path.empty()) return schemas;
  std::ifstream file(path, std::ios::binary);
  std::string json(size_t{16} << 20, '\0');
  file.read(json.data(), static_cast<std::streamsize>(json.size()));
  json.resize(static_cast<size_t>(file.gcount()));
  if (!file.eof()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read, or has more than 16 MiB"));
  }
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto parsed = google::protobuf::util::JsonStringToMessage(json, &schemas, options);
  if (parsed.ok()) return schemas;
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": ", std::string(parsed.message()),
      "; expected {\"tables\": [{\"name\": …, \"schema\": {…}}]}, as in a snapshot's manifest.json"));
}

// JOB-NUMBER-CLUSTER, as coordinators give them: seconds, and something that no cluster and no other import
// has.
std::string NewName(absl::string_view job, int64_t unix_s) {
  std::string name(job.substr(0, 64));
  for (char& c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_') c = '_';
  }
  return absl::StrCat(name, "-", unix_s, "-",
                      absl::Hex(static_cast<uint32_t>(std::random_device()()), absl::kZeroPad8));
}

absl::StatusOr<v1::SnapshotManifest> DoImport(const SnapshotOptions& options) {
  ABSL_ASSIGN_OR_RETURN(const bool npz, IsNpz(options, options.in));
  ABSL_ASSIGN_OR_RETURN(const std::unique_ptr<snapshot::Files> files,
                        snapshot::OpenDirectory(options.snapshot_dir));
  ABSL_ASSIGN_OR_RETURN(const v1::SnapshotManifest schemas, ReadSchemas(options.schema));
  ABSL_ASSIGN_OR_RETURN(const std::unique_ptr<ArrayFile> arrays,
                        npz ? OpenNpz(options.in) : OpenSafetensors(options.in));
  const auto in_file = [&](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat(options.in, ": ", status.message()));
  };
  const absl::StatusOr<std::vector<ImportedTable>> tables = TablesOf(*arrays, schemas);
  if (!tables.ok()) return in_file(tables.status());
  std::string job = options.job.empty() ? std::filesystem::path(options.in).stem().string() : options.job;
  // Nothing of it could be restored or listed; the coordinator takes no other names.
  if (const absl::Status name = CheckName("job", job); !name.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name.message(), options.job.empty() ? "; it is the file's name, choose one with --job" : ""));
  }
  const int64_t now = absl::ToUnixSeconds(world::WallClock());
  auto imported = ImportArrays(
      *files, *arrays, *tables,
      {.snapshot = NewName(job, now), .job = job, .clock = options.clock, .created_unix_s = now});
  return imported.ok() ? std::move(imported) : in_file(imported.status());
}

int Import(const SnapshotOptions& options) {
  const absl::StatusOr<v1::SnapshotManifest> imported = DoImport(options);
  if (!imported.ok()) return Complain(imported.status().message());
  return PrintNew(snapshot::InfoOf(*imported), options);
}

int Export(const SnapshotOptions& options) {
  const absl::StatusOr<v1::SnapshotInfo> done = DoExport(options);
  if (!done.ok()) return Complain(done.status().message());
  return options.json ? Print(Json(*done)) : 0;
}

}  // namespace

void AddSnapshot(CLI::App& app, SnapshotOptions& options) {
  CLI::App* snapshot = app.add_subcommand(
      "snapshot", "Take, schedule, list, restore, export, import and delete snapshots of jobs");
  snapshot->require_subcommand(1);

  CLI::App* create =
      snapshot->add_subcommand("create", "Take a snapshot of a job while it trains, and print its name");
  create->add_option("JOB", options.job, "Its name")->required();
  CLI::Option* exact =
      create->add_flag("--exact", options.exact,
                       "Workers wait once, so that the snapshot holds exactly the updates of the clocks "
                       "before its own. Snapshots of bulk synchronous jobs are always exact");
  create
      ->add_flag("--now", options.now,
                 "Take it at once, at whatever clock the workers are, not at a clock that all agree on")
      ->excludes(exact);
  create->add_flag("--json", options.json, "As JSON: SnapshotInfo of job_snapshots.proto");

  CLI::App* list =
      snapshot->add_subcommand("list", "Show the snapshots, and their schedules, of all jobs or of one");
  list->add_option("JOB", options.job, "Its name");
  list->add_flag("--json", options.json, "As JSON: ListSnapshotsReply of job_snapshots.proto");

  CLI::App* schedule = snapshot->add_subcommand("schedule", "Take snapshots of a job regularly, or stop it");
  schedule->add_option("JOB", options.job, "Its name")->required();
  CLI::Option_group* when = schedule->add_option_group("when", "When they are taken");
  when->add_option("--every", options.every, "Time between snapshots: 10m, 1h30m")->type_name("DURATION");
  when->add_option("--every-clocks", options.every_clocks, "Clocks between snapshots")
      ->check(CLI::Range(uint64_t{1}, UINT64_MAX));
  CLI::Option* off = when->add_flag("--off", options.off, "Take no more. Snapshots that were taken stay");
  when->require_option(1);
  schedule
      ->add_option("--keep", options.keep,
                   "Keep this many of the snapshots that the schedule took, the newest; it deletes no others")
      ->check(CLI::Range(1, 1000))
      ->default_val(3)
      ->excludes(off);
  schedule->add_flag("--json", options.json, "As JSON: SnapshotScheduleInfo of job_snapshots.proto");

  CLI::App* remove = snapshot->add_subcommand("delete", "Delete a snapshot, or the remains of one");
  remove->add_flag("--json", options.json, "As JSON: DeleteSnapshotReply of job_snapshots.proto");
  CLI::App* restore = snapshot->add_subcommand(
      "restore", "Make a job from a snapshot; its workers start at the snapshot's clock");
  CLI::App* dump =
      snapshot->add_subcommand("export", "Write a snapshot's values to a file for other programs");
  for (CLI::App* one : {remove, restore, dump}) {
    one->add_option("SNAPSHOT", options.snapshot, "Its name, as `paceline snapshot list` shows it")
        ->required();
  }
  restore->add_option("--job", options.job, "The new job's name (default: that of the snapshot)");
  restore->add_flag("--replace", options.replace,
                    "Delete a job of that name once the new one is complete. It must have no open sessions");
  restore->add_flag("--json", options.json, "As JSON: RestoreSnapshotReply of job_snapshots.proto");

  dump->add_option("FILE", options.out, "The file to write: NAME.npz or NAME.safetensors")->required();
  dump->add_option("--snapshot-dir", options.snapshot_dir, "The directory in which snapshots are kept")
      ->required()
      ->type_name("DIR");
  dump->add_option("--format", options.format, "npz or safetensors (default: by the file's name)")
      ->check(CLI::IsMember({"npz", "safetensors"}));
  dump->add_flag("--force", options.force, "Replace the file if there is one of that name");
  dump->add_option("--table", options.tables, "Export this table only; may be given several times");
  dump->add_flag("--slots", options.slots,
                 "Export the update rules' slots too: T.slots, f32 [rows, slots a value, dim]");
  dump->add_flag("--json", options.json, "As JSON: SnapshotInfo of job_snapshots.proto");
  dump->footer(
      "A ranged table T becomes the array T, f32 [rows, dim]; a sparse one T.keys, u64 [n], and T.values, "
      "f32 [n, dim].\n"
      "Needs no running cluster.");

  CLI::App* load =
      snapshot->add_subcommand("import", "Make a snapshot from arrays that another program wrote");
  load->add_option("FILE", options.in, "The file to read: NAME.npz or NAME.safetensors")->required();
  load->add_option("--snapshot-dir", options.snapshot_dir, "The directory in which snapshots are kept")
      ->required()
      ->type_name("DIR");
  load->add_option("--job", options.job,
                   "The name of the job when it is restored (default: the file's name)");
  load->add_option(
      "--schema", options.schema,
      "The tables' schemas, as JSON: {\"tables\": [{\"name\": T, \"schema\": TableSchema of types.proto}]}. "
      "A snapshot's manifest.json is one. Without schemas the rule of each table is add");
  load->add_option("--clock", options.clock, "The clock at which workers start")->capture_default_str();
  load->add_option("--format", options.format, "npz or safetensors (default: by the file's name)")
      ->check(CLI::IsMember({"npz", "safetensors"}));
  load->add_flag("--json", options.json, "As JSON: SnapshotInfo of job_snapshots.proto");
  load->footer(
      "Arrays T.keys, u64 or i64 [n], and T.values, f32 [n, dim], become a sparse table T; T.slots its "
      "slots; any "
      "other array, f32 [rows, …],\na ranged table of its name. Needs no running cluster; `paceline snapshot "
      "restore` "
      "makes a job of it.");
  for (CLI::App* one : {create, list, schedule, remove, restore}) {
    one->add_option("--timeout", options.timeout_s, "How long to wait")
        ->type_name("SECONDS")
        ->check(CLI::Range(0.1, 86400.0))
        ->capture_default_str();
    AddCoordinatorOption(*one, options.coordinator);
  }
}

SnapshotCommand ParsedSnapshot(const CLI::App& app) {
  const CLI::App* snapshot = app.get_subcommand("snapshot");
  if (!snapshot->parsed()) return nullptr;
  if (snapshot->get_subcommand("create")->parsed()) return Create;
  if (snapshot->get_subcommand("list")->parsed()) return List;
  if (snapshot->get_subcommand("schedule")->parsed()) return Schedule;
  if (snapshot->get_subcommand("delete")->parsed()) return Delete;
  if (snapshot->get_subcommand("import")->parsed()) return Import;
  return snapshot->get_subcommand("restore")->parsed() ? Restore : Export;
}

}  // namespace paceline::tool
