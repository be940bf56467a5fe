#include "libs/shm/handover.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace paceline::shm {
namespace {

using ::testing::HasSubstr;

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/paceline-shm-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

constexpr RingSizes kSmall{.to_shard = 4096, .to_client = 8192};
constexpr off_t kSmallBytes = 4096 + 4096 + 8192;

Descriptor MemoryOf(off_t bytes, int seals) {
  Descriptor memory(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(memory.get(), bytes), 0);
  EXPECT_EQ(fcntl(memory.get(), F_ADD_SEALS, seals), 0);
  return memory;
}

TEST(Region, IsWhatItsMakerMade) {
  auto made = Region::Create(kSmall);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ((*made)->bytes(), static_cast<uint64_t>(kSmallBytes));
  auto opened = Region::Open(Descriptor(dup((*made)->fd())), kSmall);
  ASSERT_TRUE(opened.ok()) << opened.status();
  RingWriter writer = (*made)->WriterToShard();
  writer.Put("hello", 5);
  writer.Publish();
  char out[8];
  RingReader reader = (*opened)->ReaderAtShard();
  EXPECT_EQ(reader.Take(out, sizeof(out)), 5u);
  EXPECT_EQ(std::string(out, 5), "hello");
  EXPECT_FALSE((*opened)->ReaderAtClient().HasBytes());
  EXPECT_NE(ftruncate((*made)->fd(), 0), 0) << "nobody can shrink it";
  struct stat file = {};
  ASSERT_EQ(fstat((*made)->fd(), &file), 0);
  EXPECT_GE(file.st_blocks * 512, kSmallBytes) << "no page is missing when it is touched";
}

TEST(Region, TakesOnlyMemoryThatStaysAsItIs) {
  constexpr int kAll = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  const auto open = [](off_t bytes, int seals) {
    return Region::Open(MemoryOf(bytes, seals), kSmall).status();
  };
  EXPECT_TRUE(open(kSmallBytes, kAll).ok());
  EXPECT_THAT(open(kSmallBytes, 0).message(), HasSubstr("not sealed"));
  EXPECT_THAT(open(kSmallBytes, F_SEAL_GROW | F_SEAL_SEAL).message(), HasSubstr("not sealed"));
  EXPECT_THAT(open(kSmallBytes, F_SEAL_SHRINK | F_SEAL_GROW).message(), HasSubstr("not sealed"));
  EXPECT_THAT(open(kSmallBytes, kAll | F_SEAL_WRITE).message(), HasSubstr("against writing"));
  EXPECT_THAT(open(kSmallBytes - 1, kAll).message(), HasSubstr("expected 16384"));
  EXPECT_THAT(open(kSmallBytes + 1, kAll).message(), HasSubstr("expected 16384"));
  const Folder folder;
  Descriptor file(open64((folder / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_EQ(ftruncate(file.get(), kSmallBytes), 0);
  EXPECT_FALSE(Region::Open(std::move(file), kSmall).ok()) << "a file of a disk";
}

// Else each page would be taken, or be missing, when the shard touches it.
TEST(Region, HolesAreFilledBeforeItIsUsed) {
  const Descriptor memory = MemoryOf(kSmallBytes, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  struct stat file = {};
  ASSERT_EQ(fstat(memory.get(), &file), 0);
  ASSERT_EQ(file.st_blocks, 0) << "else this test could not fail";
  const auto opened = Region::Open(Descriptor(dup(memory.get())), kSmall);
  ASSERT_TRUE(opened.ok()) << opened.status();
  ASSERT_EQ(fstat(memory.get(), &file), 0);
  EXPECT_GE(file.st_blocks * 512, kSmallBytes);
}

TEST(Region, ALimitOfFilesIsAnErrorAndNoSignal) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit less = before;
  less.rlim_cur = static_cast<rlim_t>(kSmallBytes) - 1;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &less), 0);
  const absl::Status made = Region::Create(kSmall).status();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(made)) << made;
  EXPECT_THAT(made.message(), HasSubstr("ulimit -f"));
}

TEST(Region, HasRingsOfCertainSizes) {
  EXPECT_FALSE(Region::BytesOf({.to_shard = 0, .to_client = 4096}).ok());
  EXPECT_FALSE(Region::BytesOf({.to_shard = 4096, .to_client = 5000}).ok());
  EXPECT_FALSE(Region::BytesOf({.to_shard = uint64_t{1} << 63, .to_client = 4096}).ok());
  EXPECT_FALSE(Region::BytesOf({.to_shard = 4096, .to_client = uint64_t{32} << 20}).ok());
  EXPECT_FALSE(Region::BytesOf({.to_shard = 2048, .to_client = 4096}).ok());
}

// Both ends of one connection.
struct Ends {
  Descriptor listener, client, shard;
};
Ends Meet(const std::string& path) {
  Ends ends;
  auto listener = ListenAt(path);
  EXPECT_TRUE(listener.ok()) << listener.status();
  ends.listener = *std::move(listener);
  auto client = ConnectTo(path);
  EXPECT_TRUE(client.ok()) << client.status();
  ends.client = *std::move(client);
  auto shard = AcceptOne(ends.listener.get());
  EXPECT_TRUE(shard.ok()) << shard.status();
  ends.shard = *std::move(shard);
  return ends;
}

TEST(Handover, GivesMemoryAndAnAnswer) {
  const Folder folder;
  const Ends ends = Meet(folder / "socket");
  EXPECT_TRUE(absl::IsUnavailable(TakeOffer(ends.shard.get()).status())) << "none yet";
  auto region = Region::Create(kSmall);
  ASSERT_TRUE(region.ok());
  ASSERT_TRUE(SendOffer(ends.client.get(), world::StreamKind::kPull, kSmall, (*region)->fd()).ok());
  auto offer = TakeOffer(ends.shard.get());
  ASSERT_TRUE(offer.ok()) << offer.status();
  EXPECT_EQ(offer->kind, world::StreamKind::kPull);
  EXPECT_EQ(offer->sizes.to_client, kSmall.to_client);
  EXPECT_TRUE(Region::Open(std::move(offer->memory), offer->sizes).ok());
  EXPECT_TRUE(absl::IsNotFound(TakeMessage(ends.client.get()).status()));
  SendAnswer(ends.shard.get(), absl::ResourceExhaustedError(std::string(1000, 'x')));
  const auto message = TakeMessage(ends.client.get());
  ASSERT_TRUE(message.ok());
  absl::Status taken;
  ASSERT_TRUE(ParseAnswer(*message, &taken));
  EXPECT_TRUE(absl::IsResourceExhausted(taken));
  EXPECT_FALSE(ParseAnswer("!", &taken));
}

TEST(Handover, SaysTheKindOfStream) {
  using enum world::StreamKind;
  const Folder folder;
  const Ends ends = Meet(folder / "socket");
  auto region = Region::Create(kSmall);
  ASSERT_TRUE(region.ok());
  for (const world::StreamKind kind : {kPush, kPull, kSubscribe, kReplicate}) {
    ASSERT_TRUE(SendOffer(ends.client.get(), kind, kSmall, (*region)->fd()).ok());
    const auto offer = TakeOffer(ends.shard.get());
    ASSERT_TRUE(offer.ok()) << offer.status();
    EXPECT_EQ(offer->kind, kind);
  }
}

TEST(Handover, ThePeersEndIsTheEnd) {
  const Folder folder;
  Ends ends = Meet(folder / "socket");
  ends.client = Descriptor();
  EXPECT_TRUE(absl::IsUnavailable(TakeMessage(ends.shard.get()).status()));
  EXPECT_TRUE(absl::IsCancelled(TakeOffer(ends.shard.get()).status()));
  Ring(ends.shard.get());  // no signal
}

TEST(Handover, AnythingButAnOfferIsRefused) {
  const Folder folder;
  const Ends ends = Meet(folder / "socket");
  for (const std::string& bytes : {std::string("!"), std::string(32, 'x'), std::string(500, '\0')}) {
    ASSERT_EQ(send(ends.client.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    EXPECT_TRUE(absl::IsInvalidArgument(TakeOffer(ends.shard.get()).status()));
  }
}

TEST(Handover, ABellNeverBlocks) {
  const Folder folder;
  const Ends ends = Meet(folder / "socket");
  for (int i = 0; i < 100'000; ++i) Ring(ends.client.get());
  EXPECT_EQ(TakeMessage(ends.shard.get()).value(), "!");
}

TEST(Handover, ASocketIsFoundWhileItsShardLives) {
  const Folder folder;
  const std::string path = folder / "127.0.0.1:1";
  EXPECT_TRUE(absl::IsNotFound(ConnectTo(path).status()));
  {
    auto killed = ListenAt(path);  // as if by SIGKILL: the file stays
    ASSERT_TRUE(killed.ok());
  }
  EXPECT_TRUE(absl::IsNotFound(ConnectTo(path).status()));
  auto listener = ListenAt(path);
  ASSERT_TRUE(listener.ok()) << listener.status();
  struct stat file = {};
  ASSERT_EQ(lstat(path.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  {
    const SocketFile mine(path);
    EXPECT_TRUE(ConnectTo(path).ok());
  }
  EXPECT_TRUE(absl::IsNotFound(ConnectTo(path).status()));
  // A later process has taken the place: its socket stays.
  auto first = ListenAt(path);
  ASSERT_TRUE(first.ok()) << first.status();
  {
    const SocketFile old(path);
    first = Descriptor();
    first = ListenAt(path);
    ASSERT_TRUE(first.ok()) << first.status();
  }
  EXPECT_TRUE(ConnectTo(path).ok());
}

TEST(Handover, NobodyTakesThePlaceOfAProcessThatLives) {
  const Folder folder;
  const std::string path = folder / "127.0.0.1:1";
  const auto first = ListenAt(path);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = ListenAt(path);
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  EXPECT_THAT(second.status().message(), HasSubstr("another process listens at " + path));
  // The first one is still there, and only the connection that has asked waits before that of its client.
  ASSERT_TRUE(AcceptOne(first->get()).ok());
  EXPECT_TRUE(ConnectTo(path).ok());
  EXPECT_TRUE(AcceptOne(first->get()).ok());
}

TEST(Handover, NamesSocketsByAddress) {
  EXPECT_EQ(SocketPath("/run/p", "127.0.0.1:80").value(), "/run/p/127.0.0.1:80");
  EXPECT_FALSE(SocketPath("/run/p", "../x:80").ok());
  EXPECT_FALSE(SocketPath("/run/p", "").ok());
  EXPECT_THAT(SocketPath("/" + std::string(100, 'x'), "127.0.0.1:80").status().message(),
              HasSubstr("use a shorter folder"));
}

TEST(Handover, MakesAFolderForItsUserOnly) {
  const Folder folder;
  ASSERT_TRUE(MakeFolder(folder / "sockets").ok());
  EXPECT_TRUE(MakeFolder(folder / "sockets").ok()) << "it is there";
  struct stat file = {};
  ASSERT_EQ(stat((folder / "sockets").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0700u);
  EXPECT_THAT(MakeFolder(folder / "no/where").message(), HasSubstr("no/where"));
}

}  // namespace
}  // namespace paceline::shm
