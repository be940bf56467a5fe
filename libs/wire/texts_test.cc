#include "libs/wire/texts.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/wire/map_codec.h"
#include "paceline/v1/control.pb.h"
#include "paceline/v1/coordinator.pb.h"
#include "paceline/v1/snapshot.pb.h"

namespace paceline::wire {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(CheckTextsTest, ChecksNamesAddressesAndWords) {
  v1::JoinClusterRequest join;
  EXPECT_THAT(CheckTexts(join), IsOk()) << "who needs a text says so";
  join.set_name("shard-0");
  join.set_address("host:1");
  join.set_zone("Süd, 2nd floor");
  EXPECT_THAT(CheckTexts(join), IsOk());
  join.set_name("shard 0");
  EXPECT_THAT(CheckTexts(join), StatusIs(kInvalid, HasSubstr("name: 'shard 0'")));
  join.set_name("shard-0");
  join.set_address("dns:///elsewhere:1");
  EXPECT_THAT(CheckTexts(join), StatusIs(kInvalid, AllOf(HasSubstr("address"), HasSubstr("HOST:PORT"))));
}

// Fills in every text of the message, one at a time, with what no text may have.
void ExpectEachRefused(Message& whole, Message& message) {
  const auto& reflection = *message.GetReflection();
  const auto& descriptor = *message.GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor* field = descriptor.field(i);
    if (field->type() == FieldDescriptor::TYPE_STRING) {
      const bool lines = field->name() == "code";  // which may have several
      const std::string wrong = lines ? "a\n\r" : "a\n";
      if (field->is_repeated()) {
        reflection.AddString(&message, field, wrong);
      } else {
        reflection.SetString(&message, field, wrong);
      }
      const bool secret = field->name() == "token" || field->name() == "secret";
      EXPECT_THAT(CheckTexts(whole),
                  StatusIs(kInvalid, AllOf(HasSubstr(field->name()), HasSubstr(secret  ? "expected"
                                                                               : lines ? "\\x0d"
                                                                                       : "\\x0a"))))
          << field->full_name();
      reflection.ClearField(&message, field);
    } else if (field->type() == FieldDescriptor::TYPE_MESSAGE) {
      ExpectEachRefused(whole, field->is_repeated() ? *reflection.AddMessage(&message, field)
                                                    : *reflection.MutableMessage(&message, field));
    }
  }
}

template <class... Messages>
void ExpectEveryTextRefused() {
  const auto one = [](auto message) { ExpectEachRefused(message, message); };
  (one(Messages()), ...);
}

TEST(CheckTextsTest, EveryTextOfEveryDoor) {
  ExpectEveryTextRefused<v1::JoinClusterRequest, v1::BeatRequest, v1::ChangeConfigsRequest,
                         v1::OpenSessionRequest, v1::JoinJobRequest, v1::KeepAliveRequest,
                         v1::FinishWorkerRequest, v1::CloseSessionRequest, v1::OpenTableRequest,
                         v1::DropTableRequest, v1::ChangeRuleRequest, v1::DeleteJobRequest,
                         v1::HandOverShardRequest, v1::RecoverSegmentsRequest, v1::CreateSnapshotRequest,
                         v1::ListSnapshotsRequest, v1::DeleteSnapshotRequest, v1::RestoreSnapshotRequest,
                         v1::ScheduleSnapshotsRequest>();
  ExpectEveryTextRefused<v1::InstallRequest, v1::Change, v1::FenceRequest, v1::RecruitRequest,
                         v1::HandOverRequest>();
  ExpectEveryTextRefused<v1::InstallReply, v1::ChangeReply, v1::SessionChangeReply, v1::JobChangeReply,
                         v1::FenceReply, v1::SnapshotManifest>();
}

TEST(CheckTextsTest, AMapWithAForgedNameIsRefused) {
  v1::Map map;
  map.set_version(1);
  map.add_segments()->set_epoch(1);
  map.mutable_segments(0)->mutable_primary()->set_incarnation(1);
  v1::ShardInfo* shard = map.add_shards();
  shard->set_name("shard-0");
  shard->set_address("host:1");
  shard->set_incarnation(1);
  ASSERT_THAT(MapFromProto(map), IsOk());
  shard->set_name("shard-0\nshard-1");
  EXPECT_THAT(MapFromProto(map), StatusIs(kInvalid, HasSubstr("map: shards.name: 'shard-0\\x0ashard-1'")));
}

}  // namespace
}  // namespace paceline::wire
