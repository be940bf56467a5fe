// The store over a real etcd, which this program starts.
#include "services/coordinator/store/etcd_store.h"

#include <grpcpp/grpcpp.h>

#include "absl/strings/str_cat.h"
#include "libs/world/real_clock.h"
#include "services/coordinator/store/store_contract_test.h"
#include "services/coordinator/store/test_etcd.h"
#include "store/etcd_rpc.grpc.pb.h"

namespace paceline::coordinator {
namespace {

constexpr char kRoomForAll[] = "--max-request-bytes=20971520";

// The one etcd of this program.
TestEtcd& Etcd() {
  static std::unique_ptr<TestEtcd> etcd;
  if (etcd == nullptr) {
    absl::StatusOr<std::unique_ptr<TestEtcd>> started = TestEtcd::Start({kRoomForAll});
    if (!started.ok()) {
      ADD_FAILURE() << started.status();
      std::abort();
    }
    etcd = *std::move(started);
  }
  return *etcd;
}

EtcdOptions OptionsFor(const TestEtcd& etcd) {
  EtcdOptions options;
  options.endpoints = {etcd.endpoint()};
  options.call_timeout = absl::Seconds(20);  // many megabytes, on a machine that does other things
  return options;
}

Opener EtcdOpener() {
  static int last = 0;
  EtcdOptions options = OptionsFor(Etcd());
  options.prefix = absl::StrCat("test-", ++last);
  return [options] { return absl::StatusOr<std::unique_ptr<Store>>(MakeEtcdStore(options)); };
}

INSTANTIATE_TEST_SUITE_P(All, StoreContract,
                         ::testing::Values(Kind{.name = "Etcd", .opener = EtcdOpener, .shared = true}),
                         [](const auto& param) { return param.param.name; });

TEST(EtcdStoreTest, PrefixesKeepClustersApart) {
  EtcdOptions options = OptionsFor(Etcd());
  options.prefix = "one";
  const auto one = MakeEtcdStore(options);
  options.prefix = "one\xff";
  const auto other = MakeEtcdStore(options);
  ASSERT_THAT(one->Commit({}, {Write::Put("a", "1")}), IsOk());
  ASSERT_THAT(other->Commit({}, {Write::Put("a", "2"), Write::Put("\xff\xff", "3")}), IsOk());
  const auto listed = other->List("\xff");
  ASSERT_THAT(listed, IsOk());
  ASSERT_EQ(listed->size(), 1u);
  EXPECT_EQ((*listed)[0].first, "\xff\xff");
  EXPECT_EQ((*one->List(""))[0].second.value, "1");
  EXPECT_EQ(one->List("")->size(), 1u);
}

TEST(EtcdStoreTest, KeepsTheCommitsThatAKilledEtcdAcknowledged) {
  const auto etcd = TestEtcd::Start();
  ASSERT_THAT(etcd, IsOk());
  EtcdOptions options = OptionsFor(**etcd);
  options.call_timeout = absl::Seconds(2);
  options.hold_off = absl::Milliseconds(10);
  const auto store = MakeEtcdStore(options);
  for (int i = 0; i < 20; ++i) ASSERT_THAT(store->Commit({}, {Write::Put("a", absl::StrCat(i))}), IsOk());
  (*etcd)->Kill();
  EXPECT_THAT(store->Commit({}, {Write::Put("a", "lost")}),
              StatusIs(StatusCode::kUnavailable, HasSubstr((*etcd)->endpoint())));
  EXPECT_THAT(store->Get("a"), StatusIs(StatusCode::kUnavailable));
  ASSERT_THAT((*etcd)->Restart(), IsOk());
  const absl::Time deadline = world::MonotonicNow() + absl::Seconds(30);
  auto entry = store->Get("a");
  while (!entry.ok() && world::MonotonicNow() < deadline) entry = store->Get("a");
  ASSERT_THAT(entry, IsOk());
  EXPECT_EQ((*entry)->value, "19");
}

TEST(EtcdStoreTest, AnEtcdThatHangsCostsOneTimeoutAndThenNothing) {
  const auto etcd = TestEtcd::Start();
  ASSERT_THAT(etcd, IsOk());
  EtcdOptions options = OptionsFor(**etcd);
  options.call_timeout = absl::Milliseconds(300);
  options.hold_off = absl::Seconds(60);
  absl::Status begun;  // it may be slow to begin
  for (int i = 0; i < 100 && !(begun = MakeEtcdStore(OptionsFor(**etcd))->Commit({}, {})).ok(); ++i) continue;
  ASSERT_THAT(begun, IsOk());
  const auto fresh = MakeEtcdStore(options);
  (*etcd)->Pause();
  const absl::Time start = world::MonotonicNow();
  EXPECT_THAT(fresh->Get("a"), StatusIs(StatusCode::kUnavailable, HasSubstr((*etcd)->endpoint())));
  for (int i = 0; i < 1000; ++i) EXPECT_THAT(fresh->Get("a"), StatusIs(StatusCode::kUnavailable));
  EXPECT_LT(world::MonotonicNow() - start, absl::Seconds(15)) << "a thousand timeouts are five minutes";
  (*etcd)->Resume();
}

TEST(EtcdStoreTest, MovesOnToAMemberThatAnswers) {
  const auto gone = TestEtcd::Start();
  ASSERT_THAT(gone, IsOk());
  (*gone)->Kill();
  EtcdOptions options = OptionsFor(Etcd());
  options.prefix = "two-members";
  options.call_timeout = absl::Seconds(2);
  options.endpoints.insert(options.endpoints.begin(), (*gone)->endpoint());
  const auto store = MakeEtcdStore(options);
  EXPECT_THAT(store->Get("a"), IsOk()) << "a read tries each of them";
  EXPECT_THAT(store->Commit({}, {Write::Put("a", "1")}), IsOk());
}

TEST(EtcdStoreTest, SaysWhichFlagOfEtcdIsTooSmall) {
  const auto etcd = TestEtcd::Start();
  ASSERT_THAT(etcd, IsOk());
  const auto store = MakeEtcdStore(OptionsFor(**etcd));
  for (const size_t bytes : {size_t{1600} << 10, Store::kValueBytesMax}) {
    EXPECT_THAT(store->Commit({}, {Write::Put("a", std::string(bytes, 'v'))}),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("--max-request-bytes")));
  }
  EXPECT_THAT(store->Commit({}, {Write::Put("a", std::string(1 << 20, 'v'))}), IsOk());
}

TEST(EtcdStoreTest, LetsGoOfOldRevisions) {
  EtcdOptions options = OptionsFor(Etcd());
  options.prefix = "history";
  const auto store = MakeEtcdStore(options);
  // The answer to a wish to compact says whether that was done before.
  const auto stub =
      etcdserverpb::KV::NewStub(grpc::CreateChannel(Etcd().endpoint(), grpc::InsecureChannelCredentials()));
  const auto compacted = [&](uint64_t revision) {
    grpc::ClientContext context;
    etcdserverpb::CompactionRequest request;
    request.set_revision(static_cast<int64_t>(revision));
    etcdserverpb::CompactionResponse reply;
    return stub->Compact(&context, request, &reply).error_code() == grpc::StatusCode::OUT_OF_RANGE;
  };
  ASSERT_THAT(store->Commit({}, {Write::Put("a", "first")}), IsOk());
  const uint64_t first = (*store->Get("a"))->version;
  for (int i = 0; i < 1100; ++i) ASSERT_THAT(store->Commit({}, {Write::Put("a", absl::StrCat(i))}), IsOk());
  EXPECT_TRUE(compacted(first));
  EXPECT_FALSE(compacted(first + 1)) << "the last thousand, at least, are there";
  EXPECT_EQ((*store->Get("a"))->value, "1099");
}

TEST(EtcdUrlTest, NamesMembersAndPrefix) {
  const auto plain = ParseEtcdUrl("etcd://10.0.0.1:2379");
  ASSERT_THAT(plain, IsOk());
  EXPECT_THAT(plain->endpoints, ::testing::ElementsAre("10.0.0.1:2379"));
  EXPECT_EQ(plain->prefix, "paceline");
  const auto full = ParseEtcdUrl("etcd://a:2379,b:2380,[::1]:2381/clusters/east/");
  ASSERT_THAT(full, IsOk());
  EXPECT_THAT(full->endpoints, ::testing::ElementsAre("a:2379", "b:2380", "[::1]:2381"));
  EXPECT_EQ(full->prefix, "clusters/east");
  for (const char* wrong : {"", "etcd://", "http://a:1", "etcd://a", "etcd://a:0", "etcd://a:1,", "etcd://:1",
                            "etcd://a:1/", "etcd://a:99999", "/var/lib/data"}) {
    EXPECT_THAT(ParseEtcdUrl(wrong), StatusIs(StatusCode::kInvalidArgument, HasSubstr("etcd://HOST:PORT")))
        << wrong;
  }
}

}  // namespace
}  // namespace paceline::coordinator
