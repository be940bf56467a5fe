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
#include "services/coordinator/metadata/context.h"
#include "services/coordinator/metadata/snapshots.h"
#include "services/coordinator/metadata/workers.h"

namespace paceline::coordinator {

// Snapshots of jobs that are taken without being asked for, every so many seconds or clocks, and of which
// the last few are kept. docs/snapshots.md.
//
// A schedule, what is counted from, and the names of what was taken are in the store, with the job: whoever
// leads next goes on. One at a time is taken of a job, as if somebody had asked for it; one that fails is
// tried again a little later. Only what a schedule has taken itself does it delete; where that fails for too
// many it takes no more.
class SnapshotSchedules {
 public:
  // How long it waits for one, and before it tries again.
  static constexpr absl::Duration kTakeMax = absl::Hours(1);
  static constexpr absl::Duration kTryAgain = absl::Seconds(30);
  static constexpr uint32_t kKeepMax = 1000;

  SnapshotSchedules(Context& context, Workers& workers, Snapshots& snapshots)
      : context_(context), workers_(workers), snapshots_(snapshots) {}

  absl::StatusOr<v1::ScheduleSnapshotsReply> Set(const v1::ScheduleSnapshotsRequest& request);
  void OnTime();
  // What was taken up to now is deleted by nobody but whoever asks for it: acknowledged data is about to be
  // given up as lost, and what is taken afterwards is no substitute.
  absl::Status KeepAll();

  // Of all jobs, or of the one of that name.
  std::vector<v1::SnapshotScheduleInfo> List(absl::string_view job) const;

  struct Gauge {
    uint32_t job = 0;
    std::string name;
    int64_t age_s = 0;      // since the last one was complete; while none was, since it was decided
    uint64_t failures = 0;  // since this coordinator began to lead
  };
  std::vector<Gauge> gauges() const;

 private:
  // What a restart forgets.
  struct State {
    bool taking = false;
    bool keep_it = false;  // what is being taken: KeepAll was called meanwhile
    bool deleting = false;
    std::optional<v1::SnapshotInfo> taken;  // and the store does not know yet
    absl::Time try_again = absl::InfinitePast();
    int delete_at = 0;  // of those that are too many: the ones before it could not be deleted
    absl::Time delete_again = absl::InfinitePast();
    std::string failure;  // of the last one
    uint64_t failures = 0;
  };

  bool IsDue(const JobRecord& job) const;
  // Of those that were taken, how many are more than are to be kept.
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
