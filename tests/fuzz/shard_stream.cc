#include "tests/fuzz/shard_stream.h"

#include "libs/log/testing.h"
#include "libs/ring/placement.h"

namespace paceline::fuzz {
namespace {

v1::InstallRequest MapAndTables() {
  v1::InstallRequest request;
  v1::Map& map = *request.mutable_map();
  map.set_version(1);
  map.set_ring_bits(kRingBits);
  for (uint32_t s = 0; s < kSegments; ++s) {
    v1::SegmentConfig* segment = map.add_segments();
    segment->set_epoch(1);
    // The last one is another shard's.
    segment->mutable_primary()->set_shard(s + 1 == kSegments ? 1 : 0);
    segment->mutable_primary()->set_incarnation(1);
  }
  for (uint32_t i = 0; i < 2; ++i) {
    v1::ShardInfo* shard = map.add_shards();
    shard->set_shard(i);
    shard->set_name("shard-" + std::to_string(i));
    shard->set_address("127.0.0.1:1");
    shard->set_incarnation(1);
  }
  v1::Catalogue& catalogue = *request.mutable_catalogue();
  catalogue.set_version(1);
  for (const uint32_t id : {kSparse, kRanged, kForeign}) {
    v1::Table* table = catalogue.add_tables();
    table->set_id(id);
    table->set_job(id == kForeign ? 2 : 1);
    table->set_name("table-" + std::to_string(id));
    table->mutable_schema()->set_kind(id == kRanged ? v1::TABLE_KIND_RANGED : v1::TABLE_KIND_SPARSE);
    table->mutable_schema()->set_dim(2);
    if (id == kRanged) table->mutable_schema()->set_rows(uint64_t{1} << 40);
    v1::Rule::Adagrad* rule = table->mutable_schema()->mutable_rule()->mutable_adagrad();
    rule->set_learning_rate(0.1f);
    rule->set_epsilon(1e-8f);
  }
  return request;
}

}  // namespace

// Time goes on by more than a stream may take for its Hello.
ShardUnderFire::ShardUnderFire() : shard({.hello_timeout = absl::InfiniteDuration()}, clock, probe) {
  shard.Identify({.shard = ShardId(0), .incarnation = Incarnation(1)});
  FUZZ_CHECK(shard.Install(MapAndTables()).ok(), "the map is taken");
  for (const uint64_t session : {kWorker, kSlowWorker, kReader}) {
    for (const auto action : {v1::Change::kOpen, v1::Change::kJoin}) {
      if (session == kReader && action == v1::Change::kJoin) continue;
      const v1::Change change = log::ChangeOf(action, SessionId(session), JobId(1));
      shard.MakeChange(change, [](const absl::StatusOr<v1::ChangeReply>& reply) {
        FUZZ_CHECK(reply.ok() && reply->committed_size() == kSegments - 1, "sessions are opened and joined");
      });
    }
  }
}

uint64_t ShardUnderFire::KeyIn(uint32_t segment) {
  const auto placement = ring::Placement::Sparse(TableId(kSparse), kRingBits).value();
  uint64_t key = 0;
  while (placement.Of(key) != SegmentId(segment)) ++key;
  return key;
}

}  // namespace paceline::fuzz
