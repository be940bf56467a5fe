// Hellos: welcomed or refused by name, and the caller is known only if welcomed.
#include "services/shard/streams/hello.h"
#include "tests/fuzz/shard_stream.h"

std::vector<paceline::fuzz::Seed> paceline::fuzz::Seeds() {
  v1::Hello hello;
  hello.set_feature_level(1);
  hello.set_job(1);
  hello.set_session(5);
  hello.set_client("client");
  hello.set_token("token");
  v1::Hello old = hello;
  old.set_feature_level(0);
  return {{"hello", hello.SerializeAsString()}, {"old", old.SerializeAsString()}};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  static fuzz::ShardUnderFire fire;  // a hello changes nothing in it
  v1::Hello hello;
  if (!hello.ParseFromArray(data, static_cast<int>(size))) return 0;
  std::optional<shard::Caller> caller;
  v1::Welcome welcome;
  const auto refusal = shard::Greet(fire.shard.context(), hello, &caller, &welcome);
  FUZZ_CHECK(caller.has_value() == !refusal.has_value(), "the caller is known if welcomed");
  if (refusal.has_value()) {
    FUZZ_CHECK(refusal->reason() != v1::Refusal::REASON_UNSPECIFIED && !refusal->message().empty(),
               "a refusal has a reason and says why");
  } else {
    FUZZ_CHECK(welcome.feature_level() >= 1 && welcome.window_bytes() > 0, "a welcome says what is spoken");
  }
  return 0;
}
