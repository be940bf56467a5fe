#pragma once

#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/rpc/coordinators.h"
#include "paceline/v1/coordinator.grpc.pb.h"

namespace paceline::tool {

// A client of the cluster's coordinator; if there are several, of the one that leads.
class Coordinator {
 public:
  // `addresses`: host:port, several separated by commas.
  explicit Coordinator(const std::string& addresses);

  const std::string& address() const { return coordinators_.addresses(); }
  // UNAVAILABLE at once if no process listens there; DEADLINE_EXCEEDED if no answer came in time. With
  // several coordinators: the leader's answer, with the problems of the others; if none leads, one's
  // explanation. Asks each of them, for at most `timeout`.
  absl::StatusOr<v1::StatusReply> Status(absl::Duration timeout);
  // The newest map.
  absl::StatusOr<v1::Map> Map(absl::Duration timeout);
  // DEADLINE_EXCEEDED if not all shards have answered in time, naming those it waits for; the change goes on.
  absl::StatusOr<v1::DropTableReply> DropTable(v1::DropTableRequest request, absl::Duration timeout);
  absl::StatusOr<v1::ChangeRuleReply> ChangeRule(v1::ChangeRuleRequest request, absl::Duration timeout);
  absl::StatusOr<v1::HandOverShardReply> HandOverShard(v1::HandOverShardRequest request,
                                                       absl::Duration timeout);
  // Repeat it while it returns kAborted.
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
  // Repeats the request until a coordinator leads or the time is up.
  template <class Request, class Reply>
  absl::StatusOr<Reply> Ask(grpc::Status (v1::Coordinator::Stub::*method)(grpc::ClientContext*,
                                                                          const Request&, Reply*),
                            Request request, absl::Duration timeout);

  absl::StatusOr<v1::StatusReply> StatusOf(const rpc::Coordinators::One& one, absl::Duration timeout);

  rpc::Coordinators coordinators_;
};

// Explains to the user why a coordinator gave no answer, or this one.
std::string WhyNot(const absl::Status& status, const std::string& coordinator);

// Adds --coordinator, with its default and its environment variable.
void AddCoordinatorOption(CLI::App& command, std::string& coordinator);

}  // namespace paceline::tool
