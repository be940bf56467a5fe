#pragma once

#include <vector>

#include "libs/log/testing.h"
#include "services/shard/test_util/members.h"

namespace paceline::shard::testing_members {

// The members of one segment, each with a disk that the test syncs.
class DurableTest : public ReplicationTest {
 protected:
  explicit DurableTest(Disks disks = Disks::kAcksDurable) : ReplicationTest(disks) {}
  // As time passes, every disk is synced now and then.
  void PassSyncing(absl::Duration duration) {
    for (const absl::Time end = clock.now + duration; clock.now < end;) {
      Pass(absl::Milliseconds(10));
      for (Node* node : {&a, &b, &c}) node->Sync();
      Deliver();
    }
  }
  void Start(const std::vector<uint32_t>& replicas) {
    Configure(1, 0, replicas);
    PassSyncing(absl::Milliseconds(40));
    OpenSession();
  }
  void OpenSession() {
    const v1::Change change = log::ChangeOf(v1::Change::kOpen, kA, kJob);
    std::string why;
    std::optional<Clock> behind;
    EXPECT_FALSE(a.host.primary()->Change(change, {}, &why, &behind)) << "it is not on the disk";
    a.host.Flush();
    PassSyncing(absl::Milliseconds(20));
    EXPECT_TRUE(a.host.primary()->Change(change, {}, &why, &behind)) << why;
  }
};

}  // namespace paceline::shard::testing_members
