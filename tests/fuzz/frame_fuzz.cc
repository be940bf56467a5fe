// Frames: what our splitting codec takes Protobuf takes too, and reads the same; joined again it is the same.
#include "libs/wire/frame.h"
#include "paceline/v1/shard.pb.h"
#include "tests/fuzz/fuzz.h"

namespace paceline {
namespace {

// External chunks stay apart, as receive buffers do.
absl::Cord InPieces(absl::string_view bytes, size_t piece) {
  absl::Cord cord;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    cord.Append(absl::MakeCordFromExternal(bytes.substr(at, piece), [](absl::string_view) {}));
  }
  return cord;
}

template <class Message>
void CheckAgainstProtobuf(absl::string_view bytes, const absl::Cord& cord) {
  const auto frame = wire::Decode<Message>(cord);
  if (!frame.ok()) return;
  Message whole;
  FUZZ_CHECK(whole.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())),
             "Protobuf reads what we read");
  Message head = frame->head;
  if constexpr (requires { whole.keys(); }) {
    FUZZ_CHECK(frame->keys == whole.keys(), "keys are those that Protobuf reads");
    whole.clear_keys();
  }
  if constexpr (requires { whole.values(); }) {
    FUZZ_CHECK(frame->values == whole.values(), "values are those that Protobuf reads");
    whole.clear_values();
  }
  const auto again = wire::Decode<Message>(wire::Encode(*frame));
  FUZZ_CHECK(again.ok(), "what was encoded can be decoded");
  FUZZ_CHECK(again->keys == frame->keys && again->values == frame->values, "blobs survive a round trip");
  FUZZ_CHECK(again->head.SerializeAsString() == head.SerializeAsString(), "heads survive a round trip");
}

}  // namespace

std::vector<fuzz::Seed> fuzz::Seeds() {
  v1::PushRequest push;
  push.set_table(7);
  push.set_clock(300);
  push.set_line(v1::LINE_ARRIVAL);
  push.mutable_tick()->set_clock(301);
  push.mutable_tick()->set_seals(std::string(24, '\1'));
  push.add_filters(9);
  push.set_parts(std::string(48, '\2'));
  push.set_keys(std::string(32, 'k'));
  push.set_values(std::string(64, 'v'));
  v1::PullRequest pull;
  pull.set_request(1);
  pull.set_min_clock(uint64_t{1} << 40);
  pull.set_parts(std::string(24, '\3'));
  pull.set_keys(std::string(8, 'k'));
  v1::PullReply reply;
  reply.set_request(1);
  reply.set_certificates(std::string(48, '\4'));
  reply.add_refusals()->set_message("because");
  reply.set_values(std::string(3000, 'v'));
  return {{"push", push.SerializeAsString()},
          {"pull", pull.SerializeAsString()},
          {"pull_reply", reply.SerializeAsString()},
          {"twice", push.SerializeAsString() + push.SerializeAsString()},
          {"empty", ""}};
}

}  // namespace paceline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const size_t piece : {size_t{1}, size_t{7}, std::max<size_t>(size, 1)}) {
    const absl::Cord cord = InPieces(bytes, piece);
    CheckAgainstProtobuf<v1::PushRequest>(bytes, cord);
    CheckAgainstProtobuf<v1::PullRequest>(bytes, cord);
    CheckAgainstProtobuf<v1::PullReply>(bytes, cord);
    CheckAgainstProtobuf<v1::PushPullRequest>(bytes, cord);
    const wire::FlatBytes flat(cord);
    FUZZ_CHECK(flat.view() == bytes, "flat bytes are the Cord's");
  }
  return 0;
}
