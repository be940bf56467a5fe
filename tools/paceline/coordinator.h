#pragma once

#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/rpc/coordinators.h"
#include "paceline/v1/coordinator.grpc.pb.h"

namespace paceline::tool {

// A cluster's coordinator, asked from outside; of several the one that leads.
class Coordinator {
 public:
  // `addresses`: host:port, several with commas between.
  explicit Coordinator(const std::string& addresses);

  const std::string& address() const { return coordinators_.addresses(); }
  // UNAVAILABLE at once if nobody listens there; DEADLINE_EXCEEDED if no answer came in time. Of several
  // coordinators: what the leader answers, with what is wrong with the others; if none leads, what one says
  // of why. Each of them is asked, for at most `timeout`.
  absl::StatusOr<v1::StatusReply> Status(absl::Duration timeout);
  // The newest map.
  absl::StatusOr<v1::Map> Map(absl::Duration timeout);
  // What is not everywhere in time goes on all the same: DEADLINE_EXCEEDED, naming whom it waits for.
  absl::StatusOr<v1::DropTableReply> DropTable(v1::DropTableRequest request, absl::Duration timeout);
  absl::StatusOr<v1::ChangeRuleReply> ChangeRule(v1::ChangeRuleRequest request, absl::Duration timeout);
  absl::StatusOr<v1::HandOverShardReply> HandOverShard(v1::HandOverShardRequest request,
                                                       absl::Duration timeout);
  // To be repeated while it says kAborted.
  absl::StatusOr<v1::RemoveShardReply> RemoveShard(v1::RemoveShardRequest request, absl::Duration timeout);
  absl::StatusOr<v1::RecoverSegmentsReply> RecoverSegments(v1::RecoverSegmentsRequest request,
                                                           absl::Duration timeout);
  absl::StatusOr<v1::DeleteJobReply> DeleteJob(v1::DeleteJobRequest request, absl::Duration timeout);
  absl::StatusOr<v1::CreateSnapshotReply> CreateSnapshot(v1::CreateSnapshotRequest request,
                                                         absl::Duration timeout);
  absl::StatusOr<v1::ListSnapshotsReply> ListSnapshots(v1::ListSnapshotsRequest request,
                                                       absl::Duration timeout);
  absl::StatusOr<v1::DeleteSnapshotReply> DeleteSnapshot(v1::DeleteSnapshotRequest request,
                                                         absl::Duration timeout);
  absl::StatusOr<v1::ScheduleSnapshotsReply> ScheduleSnapshots(v1::ScheduleSnapshotsRequest request,
                                                               absl::Duration timeout);
  absl::StatusOr<v1::RestoreSnapshotReply> RestoreSnapshot(v1::RestoreSnapshotRequest request,
                                                           absl::Duration timeout);

 private:
  // Asks until one leads or the time is up.
  template <class Request, class Reply>
  absl::StatusOr<Reply> Ask(grpc::Status (v1::Coordinator::Stub::*method)(grpc::ClientContext*,
                                                                          const Request&, Reply*),
                            Request request, absl::Duration timeout);

  absl::StatusOr<v1::StatusReply> StatusOf(const rpc::Coordinators::One& one, absl::Duration timeout);

  rpc::Coordinators coordinators_;
};

// What to tell somebody to whom a coordinator gave no answer, or this one.
std::string WhyNot(const absl::Status& status, const std::string& coordinator);

// Adds --coordinator, with its default and its variable of the environment.
void AddCoordinatorOption(CLI::App& command, std::string& coordinator);

}  // namespace paceline::tool
