#include "services/coordinator/status_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace paceline::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

v1::ShardStatus& Shard(v1::StatusReply& status, const std::string& name, bool alive) {
  v1::ShardStatus& shard = *status.add_shards();
  shard.mutable_info()->set_name(name);
  shard.set_alive(alive);
  return shard;
}

TEST(StatusPageTest, ShowsShardsJobsWorkersAndProblems) {
  v1::StatusReply status;
  status.add_problems("shard-1 has been silent for 4.0 s");
  v1::ShardStatus& busy = Shard(status, "shard-10", true);
  busy.mutable_last()->set_bytes(uint64_t{90} << 20);
  busy.mutable_last()->set_bytes_budget(uint64_t{100} << 20);
  busy.mutable_load()->set_pushed_per_s(700);
  busy.mutable_load()->set_read_per_s(77);
  Shard(status, "shard-2", true).mutable_drain()->set_segments_left(5);
  Shard(status, "shard-1", false).set_silent_ms(4000);
  v1::JobStatus& job = *status.add_jobs();
  job.set_name("ctr");
  job.set_min_clock(31);
  for (const uint64_t clock : {33, 31}) {
    v1::SessionStatus& worker = *job.add_sessions();
    worker.set_state("worker");
    worker.set_rank(static_cast<uint32_t>(clock - 31));
    worker.set_clock(clock);
  }
  const std::string page = StatusPage(status, "ml.ps");
  EXPECT_THAT(
      page, AllOf(HasSubstr("<title>Paceline: ml.ps</title>"), HasSubstr("shard-1 has been silent for 4.0 s"),
                  HasSubstr("silent for 4.0 s"), HasSubstr("drains: 5 segments left"),
                  HasSubstr("<td class=\"n bad\">90 %</td>"), HasSubstr("<td class=\"n\">777</td>")));
  EXPECT_LT(page.find("shard-2<"), page.find("shard-10<"));
  EXPECT_THAT(page, AllOf(HasSubstr("<td class=\"\">ctr</td>"), HasSubstr("<td class=\"n\">2</td>")));
}

// Beats of two shards are of two times: what one of them tells of both workers counts.
TEST(StatusPageTest, AWorkerIsBehindByWhatOneShardTells) {
  v1::StatusReply status;
  v1::JobStatus& job = *status.add_jobs();
  job.set_job(7);
  for (const uint64_t session : {1, 2, 3}) {
    v1::SessionStatus& worker = *job.add_sessions();
    worker.set_session(session);
    worker.set_state("worker");
    worker.set_rank(static_cast<uint32_t>(session));
    worker.set_clock(900 + 40 * session);
  }
  for (const uint64_t at : {900, 950}) {
    v1::ShardStatus& shard = Shard(status, absl::StrCat("shard-", at), true);
    for (const uint64_t session : {1, 2}) {
      v1::WorkerClock& worker = *shard.mutable_last()->add_workers();
      worker.set_job(7);
      worker.set_session(session);
      worker.set_clock(session == 1 ? at : at + 2);
    }
  }
  const std::string page = StatusPage(status, "");
  const auto row = [](const char* rank, int clock, const char* behind) {
    return absl::StrCat("<td class=\"n\">", rank, "</td><td class=\"\">worker</td><td class=\"n\">", clock,
                        "</td>", behind);
  };
  EXPECT_THAT(page, AllOf(HasSubstr(row("1", 940, "<td class=\"n\">2</td>")),
                          HasSubstr(row("2", 980, "<td class=\"n\">0</td>")),
                          HasSubstr(row("3", 1020, "<td class=\"\"></td>"))));
}

TEST(StatusPageTest, WhatOthersHaveNamedIsText) {
  const std::string evil = "<script>alert('x')</script>&\"";
  v1::StatusReply status;
  status.set_version(evil);
  status.set_coordinator(evil);
  status.set_leader(evil);
  status.add_problems(evil);
  Shard(status, evil, true);
  v1::JobStatus& job = *status.add_jobs();
  job.set_name(evil);
  job.set_data_lost(evil);
  v1::SessionStatus& session = *job.add_sessions();
  session.set_client(evil);
  session.set_state(evil);
  for (const bool standby : {false, true}) {
    status.set_standby(standby);
    const std::string page = StatusPage(status, evil);
    EXPECT_THAT(page,
                AllOf(Not(HasSubstr("<script")), Not(HasSubstr("alert('x')")), HasSubstr("&lt;script&gt;")));
  }
}

TEST(StatusPageTest, IsBoundedAndSaysSo) {
  v1::StatusReply status;
  v1::JobStatus& job = *status.add_jobs();
  for (int i = 0; i < 700; ++i) job.add_sessions()->set_state("worker");
  EXPECT_THAT(StatusPage(status, ""),
              AllOf(HasSubstr("and 200 more"), HasSubstr("No problems"), HasSubstr("none")));
}

TEST(StatusPageTest, AStandbyNamesWhoLeads) {
  v1::StatusReply status;
  status.set_standby(true);
  EXPECT_THAT(StatusPage(status, ""), HasSubstr("Nobody is known to lead."));
  status.set_leader("10.0.0.2:7070");
  EXPECT_THAT(StatusPage(status, ""), HasSubstr("The one that leads: 10.0.0.2:7070"));
}

}  // namespace
}  // namespace paceline::coordinator
