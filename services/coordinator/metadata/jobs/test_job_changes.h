#pragma once

#include <string>

#include "libs/base/test_util/status_matchers.h"
#include "services/coordinator/metadata/test_util/test_cluster.h"

namespace paceline::coordinator {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;

inline v1::TableSchema SgdSchema(float lr = 1) {
  v1::TableSchema schema = SparseSchema(1);
  schema.mutable_rule()->mutable_sgd()->set_learning_rate(lr);
  return schema;
}

class JobChangesTest : public ::testing::Test {
 protected:
  JobChangesTest() {
    cluster_.JoinShards();
    session_ = cluster_.Opened("ctr");
    weights_ = Table(session_, "weights");
  }

  uint32_t Table(uint64_t session, const std::string& name) {
    const auto opened = cluster_.OpenTable(session, name, SgdSchema());
    EXPECT_THAT(opened, IsOk());
    cluster_.shards().Deliver();
    return opened.ok() ? opened->table().id() : 0;
  }
  // A change of the weights' rate, asked for by the session.
  v1::ChangeRuleRequest Rates(float lr) const {
    v1::ChangeRuleRequest request;
    request.set_session(session_);
    request.set_table(weights_);
    request.mutable_rule()->mutable_sgd()->set_learning_rate(lr);
    return request;
  }
  static v1::ChangeRuleRequest At(v1::ChangeRuleRequest request, uint64_t clock) {
    request.set_at_clock(clock);
    return request;
  }
  static v1::ChangeRuleRequest Now(v1::ChangeRuleRequest request) {
    request.set_now(true);
    return request;
  }
  template <class Reply>
  Pending<Reply> Done(Pending<Reply> pending) {
    cluster_.Await(pending);
    return pending;
  }
  // The rates that the segment has logged last for the weights.
  FakeRates In(uint32_t segment) {
    const auto& rates = cluster_.shards().Segment(segment).rates[weights_];
    return rates.empty() ? FakeRates() : rates.back();
  }
  int Dropped(uint32_t table) {
    return cluster_.CountSegments([table](const FakeSegment& s) { return s.dropped.contains(table); });
  }
  // 0: there is none.
  uint32_t JobNamed(const std::string& name) {
    const v1::StatusReply status = cluster_.core().Status();
    for (const v1::JobStatus& job : status.jobs()) {
      if (job.name() == name) return job.job();
    }
    return 0;
  }
  std::vector<std::string> TableNames() {
    std::vector<std::string> names;
    const v1::StatusReply status = cluster_.core().Status();
    for (const v1::Table& table : status.tables()) names.push_back(table.name());
    return names;
  }
  // The shards report these clocks of the job.
  void AdvanceClocks(uint64_t clock) {
    cluster_.shards().AdvanceMinClock(clock);
    cluster_.Run(absl::Seconds(2));
  }

  TestCluster cluster_{2};
  uint64_t session_ = 0;
  uint32_t weights_ = 0;
};

}  // namespace paceline::coordinator
