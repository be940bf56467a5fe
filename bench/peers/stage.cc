#include "bench/peers/stage.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "bench/peers/machine_systems.h"
#include "bench/peers/meters.h"
#include "bench/peers/processes.h"
#include "bench/peers/ps_lite_system.h"
#include "bench/peers/redis_system.h"
#include "libs/base/status.h"

namespace paceline::bench::peers {
namespace {

std::string NameOf(PsLiteRows rows) {
  return rows == PsLiteRows::kFlat ? "ps-lite flat" : "ps-lite map";
}

}  // namespace

absl::Status StageRun::Start(const absl::StatusOr<std::filesystem::path>& driver) {
  ABSL_RETURN_IF_ERROR(WriteKeys());
  const Data& data = stage_.data;
  for (const Kind kind : {Kind::kRanged, Kind::kSparse, Kind::kNearRanged, Kind::kNearSparse}) {
    if ((data.dense && !IsRanged(kind)) || (IsNear(kind) && !plan_.near)) continue;
    ABSL_RETURN_IF_ERROR(Add(peers::NameOf(kind), kind, StartPaceline(supervisor_, data, kind)));
  }
  for (const PsLiteRows rows : {PsLiteRows::kFlat, PsLiteRows::kMap}) {
    const std::string name = NameOf(rows);
    absl::StatusOr<std::unique_ptr<System>> system;
    if (!driver.ok()) system = driver.status();
    if (driver.ok()) system = StartPsLite(supervisor_, *driver, FolderFor(name), data, rows);
    ABSL_RETURN_IF_ERROR(Add(name, std::nullopt, std::move(system)));
  }
  ABSL_RETURN_IF_ERROR(
      Add("Redis", std::nullopt, StartRedis(supervisor_, FolderFor("redis"), data, RedisRows::kBinary)));
  if (stage_.with_additions) {
    ABSL_RETURN_IF_ERROR(Add("Redis INCRBYFLOAT", std::nullopt,
                             StartRedis(supervisor_, FolderFor("redis-adds"), data, RedisRows::kDecimals)));
  }
  ABSL_ASSIGN_OR_RETURN(auto echoes, StartEchoes(supervisor_, FolderFor("limits"), data));
  for (auto& echo : echoes) {
    const std::string name = echo->name();
    ABSL_RETURN_IF_ERROR(Add(name, std::nullopt, std::move(echo)));
  }
  return Add("memcpy", std::nullopt, MakeMemcpy(data));
}

absl::Status StageRun::Add(const std::string& name, std::optional<Kind> ours,
                           absl::StatusOr<std::unique_ptr<System>> system) {
  Participant& added = participants_.emplace_back();
  added.name = name;
  added.ours = ours;
  added.pushes.resize(stage_.works.size());
  for (auto& figures : added.figures) figures.resize(stage_.works.size());
  if (absl::IsNotFound(system.status()) && !ours.has_value()) {
    added.skipped = std::string(system.status().message());
    return absl::OkStatus();
  }
  ABSL_RETURN_IF_ERROR(system.status());
  added.system = *std::move(system);
  const pid_t server = added.system->server_process();
  const uint64_t before = ResidentBytes(server);
  ABSL_RETURN_IF_ERROR(added.system->Touch());
  const uint64_t after = ResidentBytes(server);
  added.resident_bytes = after > before ? static_cast<double>(after - before) : 0;
  return absl::OkStatus();
}

std::filesystem::path StageRun::FolderFor(const std::string& name) const {
  const std::filesystem::path folder = folder_ / absl::StrReplaceAll(name, {{" ", "-"}});
  std::error_code error;  // told when a file is put there
  std::filesystem::create_directories(folder, error);
  return folder;
}

absl::Status StageRun::WriteKeys() {
  for (Work& work : stage_.works) {
    if (work.keys.empty()) continue;
    work.in_file = FolderFor("keys") / absl::StrCat(work.batch);
    ABSL_RETURN_IF_ERROR(WriteNumbers(work.in_file, work.keys));
  }
  return absl::OkStatus();
}

bool StageRun::TakesPart(const Participant& participant, size_t work) const {
  return participant.system != nullptr && participant.system->Takes(stage_.data, stage_.works[work]);
}

absl::StatusOr<Turn> StageRun::RunTurn(Participant& participant, size_t work, Op op,
                                       absl::Duration duration) {
  System& system = *participant.system;
  const double client_before = ProcessCpuSeconds(system.client_process());
  const double server_before = ProcessCpuSeconds(system.server_process());
  absl::StatusOr<Turn> turn = system.Run(op, stage_.works[work], participant.pushes[work], duration);
  if (!turn.ok()) {
    return absl::Status(turn.status().code(), absl::StrCat(participant.name, ", ", stage_.data.name, ": ",
                                                           turn.status().message()));
  }
  turn->client_cpu_seconds = ProcessCpuSeconds(system.client_process()) - client_before;
  turn->server_cpu_seconds = ProcessCpuSeconds(system.server_process()) - server_before;
  if (op == Op::kPush) participant.pushes[work] += turn->us.size();
  return turn;
}

absl::Status StageRun::Measure() {
  const size_t count = participants_.size();
  for (size_t work = 0; work < stage_.works.size(); ++work) {
    for (int round = -1; round < plan_.rounds; ++round) {  // the first warms up, and is not counted
      for (size_t i = 0; i < count; ++i) {
        // Nobody is always the one after the same other.
        Participant& participant = participants_[(i + static_cast<size_t>(round + 1)) % count];
        if (!TakesPart(participant, work)) continue;
        for (const Op op : {Op::kPush, Op::kPull}) {
          ABSL_ASSIGN_OR_RETURN(const Turn turn,
                                RunTurn(participant, work, op, round < 0 ? plan_.turn / 2 : plan_.turn));
          if (round >= 0)
            participant.figures[static_cast<int>(op)][work].Add(turn, stage_.data, stage_.works[work]);
        }
      }
    }
  }
  return absl::OkStatus();
}

absl::Status StageRun::Check() {
  for (Participant& participant : participants_) {
    if (participant.system == nullptr) continue;
    std::vector<uint32_t> pushes(stage_.data.rows);
    for (size_t work = 0; work < stage_.works.size(); ++work) {
      CountPushes(stage_.works[work], participant.pushes[work], pushes);
    }
    ABSL_ASSIGN_OR_RETURN(const uint64_t wrong, participant.system->WrongRows(pushes));
    if (wrong == 0) continue;
    return absl::DataLossError(absl::StrCat("peers: ", participant.name, ", ", stage_.data.name, ": ", wrong,
                                            " of ", stage_.data.rows,
                                            " rows are not what the pushes must have left"));
  }
  return absl::OkStatus();
}

Beside StageRun::Participant::ToBeside(size_t work, Op op) const {
  const Figures& own = figures[static_cast<int>(op)][work];
  return {.name = name, .skipped = skipped, .figures = system == nullptr ? nullptr : &own};
}

std::vector<Result> StageRun::Results() const {
  std::vector<Result> results;
  const Data& data = stage_.data;
  const double units = static_cast<double>(data.dense ? data.bytes() : data.rows);
  for (const Participant& ours : participants_) {
    if (!ours.ours.has_value()) continue;
    for (const Participant& other : participants_) {
      if (other.ours.has_value()) continue;
      for (size_t work = 0; work < stage_.works.size(); ++work) {
        if (other.system != nullptr && !TakesPart(other, work)) continue;
        for (const Op op : {Op::kPush, Op::kPull}) {
          const std::vector<Result> some =
              Compare(data, stage_.works[work], op, *ours.ours, ours.figures[static_cast<int>(op)][work],
                      other.ToBeside(work, op));
          results.insert(results.end(), some.begin(), some.end());
        }
      }
      if (other.resident_bytes > 0 || other.system == nullptr) {
        results.push_back(CompareMemory(data, *ours.ours, ours.resident_bytes / units,
                                        other.ToBeside(0, Op::kPush), other.resident_bytes / units));
      }
    }
  }
  return results;
}

}  // namespace paceline::bench::peers
