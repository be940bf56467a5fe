#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "paceline/v1/coordinator.pb.h"
#include "services/coordinator/metadata/facts/context.h"
#include "services/coordinator/metadata/sessions/workers.h"
#include "services/coordinator/metadata/snapshots/snapshots.h"

namespace paceline::coordinator {

// Takes snapshots of jobs on a schedule, every so many seconds or clocks, and keeps the last few.
// docs/snapshots.md.
//
// The store holds, with the job, the schedule, the beginning of its present interval, and the names of the
// snapshots taken, so the next leader continues. A job has one scheduled snapshot under way at a time; it
// proceeds like a requested one. One that fails is tried again a little later. A schedule deletes only
// snapshots that it has taken itself; if too many cannot be deleted it takes no more.
class SnapshotSchedules {
 public:
  // How long one snapshot may take, and the pause before another try.
  static constexpr absl::Duration kTakeMax = absl::Hours(1);
  static constexpr absl::Duration kTryAgain = absl::Seconds(30);
  static constexpr uint32_t kKeepMax = 1000;

  SnapshotSchedules(Context& context, Workers& workers, Snapshots& snapshots)
      : context_(context), workers_(workers), snapshots_(snapshots) {}

  absl::StatusOr<v1::ScheduleSnapshotsReply> Set(const v1::ScheduleSnapshotsRequest& request);
  void OnTime();
  // From now on no schedule deletes the snapshots taken so far, only a request does. Called when acknowledged
  // data is about to be given up as lost: later snapshots are no substitute.
  absl::Status KeepAll();

  // The schedules of all jobs, or of the job of that name.
  std::vector<v1::SnapshotScheduleInfo> List(absl::string_view job) const;

  struct Gauge {
    uint32_t job = 0;
    std::string name;
    int64_t age_s = 0;      // since the last one was complete; if there is none, since the schedule was set
    uint64_t failures = 0;  // since this coordinator began to lead
    uint32_t every_s = 0;   // 0: it goes by clocks
  };
  std::vector<Gauge> gauges() const;

 private:
  // Soft state of a schedule: a restart of the coordinator forgets it.
  struct State {
    bool taking = false;
    bool keep_it = false;  // the one being taken: KeepAll was called meanwhile
    bool deleting = false;
    std::optional<v1::SnapshotInfo> taken;  // taken, but not in the store yet
    absl::Time try_again = absl::InfinitePast();
    int delete_at = 0;  // of the surplus ones: those before it could not be deleted
    absl::Time delete_again = absl::InfinitePast();
    std::string failure;  // of the last snapshot
    uint64_t failures = 0;
  };

  bool IsDue(const JobRecord& job) const;
  // How many of the snapshots taken exceed the number to keep.
  static int Surplus(const ScheduleRecord& record);
  void Take(const JobRecord& job);
  void OnTaken(uint32_t job, const absl::StatusOr<v1::CreateSnapshotReply>& reply);
  void Note(uint32_t job);
  void DeleteOld(const JobRecord& job, int which);
  void OnDeleted(uint32_t job, const std::string& name, const absl::Status& status);
  v1::SnapshotScheduleInfo InfoOf(const JobRecord& job) const;

  Context& context_;
  Workers& workers_;
  Snapshots& snapshots_;
  std::map<uint32_t, State> states_;  // by job
};

}  // namespace paceline::coordinator
