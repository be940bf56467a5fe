// Maps and schemas: accepted ones keep the rules of their class, and survive a round trip.
#include "libs/ring/placement.h"
#include "libs/table/store.h"
#include "libs/wire/compact_map.h"
#include "libs/wire/map_codec.h"
#include "libs/wire/schema_codec.h"
#include "tests/fuzz/fuzz.h"

namespace paceline {
namespace {

void CheckMap(const std::string& bytes) {
  v1::Map proto;
  if (!proto.ParseFromString(bytes)) return;
  const auto map = wire::MapFromProto(proto);
  if (!map.ok()) return;
  for (uint32_t s = 0; s < map->SegmentCount(); ++s) {
    const ring::Member& primary = map->Primary(SegmentId(s));
    FUZZ_CHECK(map->FindShard(primary.shard) != nullptr, "a primary is a known shard");
  }
  const auto again = wire::MapFromProto(wire::ToProto(*map));
  FUZZ_CHECK(again.ok(), "a map that was taken is taken again");
  FUZZ_CHECK(wire::ToProto(*again).SerializeAsString() == wire::ToProto(*map).SerializeAsString(),
             "maps survive a round trip");
}

void CheckCompactMap(const std::string& bytes) {
  v1::CompactMap proto;
  if (!proto.ParseFromString(bytes)) return;
  const auto map = wire::Expand(proto);
  if (!map.ok()) return;
  const auto again = wire::Expand(wire::Compact(*map));
  FUZZ_CHECK(again.ok(), "a map that was expanded has a compact form");
  // Unknown fields of what the message holds do not come along.
  const auto plain = [](const v1::Map& some) {
    v1::Map copy = some;
    copy.DiscardUnknownFields();
    return copy.SerializeAsString();
  };
  FUZZ_CHECK(plain(*again) == plain(*map), "maps survive their compact form");
  CheckMap(map->SerializeAsString());
}

void CheckSchema(const std::string& bytes) {
  v1::TableSchema proto;
  if (!proto.ParseFromString(bytes)) return;
  const auto schema = wire::SchemaFromProto(proto);
  if (!schema.ok()) return;
  const auto again = wire::SchemaFromProto(wire::ToProto(*schema));
  FUZZ_CHECK(again.ok(), "a schema that was taken is taken again");
  FUZZ_CHECK(wire::ToProto(*again).SerializeAsString() == wire::ToProto(*schema).SerializeAsString(),
             "schemas survive a round trip");
  // A table of it can be made and used.
  constexpr int kRingBits = 2;
  constexpr TableId kTable{1};
  const auto placement = schema->kind == table::Kind::kSparse
                             ? ring::Placement::Sparse(kTable, kRingBits)
                             : ring::Placement::Ranged(kTable, kRingBits, schema->rows, schema->dim);
  FUZZ_CHECK(placement.ok(), "a valid schema can be placed");
  table::TableStore store(kTable, *schema, kRingBits);
  const std::vector<uint64_t> key{schema->kind == table::Kind::kSparse ? 17 : schema->rows - 1};
  std::vector<float> row(schema->dim, 0.5f);
  store.Update(absl::MakeConstSpan(key), absl::MakeConstSpan(row), Lsn(1));
  store.Read(absl::MakeConstSpan(key), row.data());
}

}  // namespace

std::vector<fuzz::Seed> fuzz::Seeds() {
  v1::Map map;
  map.set_version(3);
  map.set_ring_bits(2);
  for (uint32_t s = 0; s < 4; ++s) {
    v1::SegmentConfig* segment = map.add_segments();
    segment->set_epoch(1 + s);
    segment->mutable_primary()->set_shard(s % 2);
    segment->mutable_primary()->set_incarnation(5);
    v1::Member* replica = segment->add_replicas();
    replica->set_shard(1 - s % 2);
    replica->set_incarnation(5);
  }
  for (uint32_t i = 0; i < 2; ++i) {
    v1::ShardInfo* shard = map.add_shards();
    shard->set_shard(i);
    shard->set_name("shard-" + std::to_string(i));
    shard->set_address("127.0.0.1:1");
    shard->set_incarnation(5);
  }
  v1::TableSchema sparse;
  sparse.set_kind(v1::TABLE_KIND_SPARSE);
  sparse.set_dim(16);
  sparse.mutable_initialiser()->mutable_uniform()->set_high(1);
  sparse.mutable_rule()->mutable_adagrad()->set_learning_rate(0.1f);
  sparse.mutable_rule()->mutable_adagrad()->set_epsilon(1e-8f);
  sparse.set_seed(4);
  v1::TableSchema ranged;
  ranged.set_kind(v1::TABLE_KIND_RANGED);
  ranged.set_dim(2);
  ranged.set_rows(10'000);
  ranged.mutable_initialiser()->mutable_normal()->set_stddev(1);
  ranged.mutable_rule()->mutable_ftrl_proximal()->set_alpha(0.1f);
  ranged.mutable_rule()->mutable_ftrl_proximal()->set_beta(1);
  v1::TableSchema written = sparse;
  v1::Rule::Expression& expression = *written.mutable_rule()->mutable_expression();
  expression.add_slots()->set_name("n");
  expression.add_params()->set_name("lr");
  expression.mutable_params(0)->set_value(0.1f);
  expression.set_code("n = n + g*g; w = w - lr*g / (sqrt(n) + step)");
  FUZZ_CHECK(wire::MapFromProto(map).ok() && wire::SchemaFromProto(sparse).ok() &&
                 wire::SchemaFromProto(ranged).ok() && wire::SchemaFromProto(written).ok(),
             "seeds are valid");
  v1::Map lossy = map;
  lossy.mutable_segments(1)->set_lost(true);
  lossy.mutable_segments(2)->set_change_floor(9);
  return {{"map", map.SerializeAsString()},
          {"compact_map", wire::Compact(lossy).SerializeAsString()},
          {"sparse_schema", sparse.SerializeAsString()},
          {"ranged_schema", ranged.SerializeAsString()},
          {"written_schema", written.SerializeAsString()}};
}

}  // namespace paceline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  paceline::CheckMap(bytes);
  paceline::CheckCompactMap(bytes);
  paceline::CheckSchema(bytes);
  return 0;
}
