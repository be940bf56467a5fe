#pragma once

#include <string>
#include <vector>

#include "libs/base/test_util/status_matchers.h"
#include "libs/snapshot/manifest.h"
#include "services/coordinator/metadata/snapshots/test_snapshot_files.h"
#include "services/coordinator/metadata/test_util/test_cluster.h"

namespace paceline::coordinator {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;

// Two shards with one job, "ctr", that has a session and a table, and a folder of snapshots.
class SnapshotsTest : public ::testing::Test {
 protected:
  SnapshotsTest() {
    cluster_.JoinShards();
    WriteSnapshotsTo(files_, cluster_.shards());
    session_ = cluster_.Opened("ctr");
    EXPECT_THAT(cluster_.OpenTable(session_, "weights", SparseSchema()), IsOk());
  }

  Pending<v1::CreateSnapshotReply> Create(bool now = false, uint32_t timeout_ms = 0) {
    v1::CreateSnapshotRequest request;
    request.set_job("ctr");
    request.set_now(now);
    request.set_timeout_ms(timeout_ms);
    Pending<v1::CreateSnapshotReply> pending;
    pending.ticket = cluster_.core().CreateSnapshot(request, absl::InfiniteFuture(), pending.done());
    return pending;
  }
  Pending<v1::RestoreSnapshotReply> Restore(const std::string& snapshot, const std::string& job,
                                            bool replace = false, uint32_t replaces = 0, uint64_t nonce = 0) {
    v1::RestoreSnapshotRequest request;
    request.set_snapshot(snapshot);
    request.set_job(job);
    request.set_replace(replace);
    request.set_replaces(replaces);
    request.set_nonce(nonce);
    Pending<v1::RestoreSnapshotReply> pending;
    pending.ticket = cluster_.core().RestoreSnapshot(request, absl::InfiniteFuture(), pending.done());
    return pending;
  }
  template <class Reply>
  Pending<Reply> Done(Pending<Reply> pending) {
    cluster_.Await(pending);
    return pending;
  }
  v1::ListSnapshotsReply List() {
    Pending<v1::ListSnapshotsReply> pending;
    cluster_.core().ListSnapshots({}, absl::InfiniteFuture(), pending.done());
    cluster_.Await(pending);
    EXPECT_THAT(pending.status(), IsOk());
    return *pending;
  }
  absl::Status Delete(const std::string& snapshot) {
    v1::DeleteSnapshotRequest request;
    request.set_snapshot(snapshot);
    Pending<v1::DeleteSnapshotReply> pending;
    cluster_.core().DeleteSnapshot(request, absl::InfiniteFuture(), pending.done());
    cluster_.Await(pending);
    return pending.status();
  }
  // A table whose rates change at a clock that workers have yet to come to.
  void ChangeRatesAt(uint64_t clock) {
    v1::TableSchema schema = SparseSchema();
    schema.mutable_rule()->mutable_sgd()->set_learning_rate(1);
    const auto table = cluster_.OpenTable(session_, "rates", schema);
    ASSERT_THAT(table, IsOk());
    cluster_.Worker("ctr");
    v1::ChangeRuleRequest request;
    request.set_session(session_);
    request.set_table(table->table().id());
    request.mutable_rule()->mutable_sgd()->set_learning_rate(2);
    request.set_at_clock(clock);
    ASSERT_THAT(Done(cluster_.ChangeRule(request)).status(), IsOk());
  }
  v1::SnapshotManifest Manifest(const std::string& name) {
    const auto manifest = snapshot::ReadManifest(files_.files, name);
    EXPECT_THAT(manifest, IsOk());
    return manifest.ok() ? *manifest : v1::SnapshotManifest();
  }
  void CloseAll() { Done(cluster_.CloseSession(session_)); }
  std::vector<std::string> Jobs() {
    std::vector<std::string> names;
    const auto status = cluster_.core().Status();
    for (const v1::JobStatus& job : status.jobs()) names.push_back(job.name());
    return names;
  }

  FilesAtOnce files_;
  TestCluster cluster_{2, {.ring_bits = 3, .snapshots = &files_}};
  uint64_t session_ = 0;
};

}  // namespace paceline::coordinator
