#include "libs/tcp/socket_pipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "libs/tcp/preamble.h"

namespace paceline::tcp {
namespace {

using carrier::Descriptor;
using carrier::FrameKind;
using carrier::Pipe;
using ::testing::HasSubstr;

// Two ends of one connection.
struct Pair {
  Pair() {
    int ends[2] = {};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    shard = Descriptor(ends[0]);
    client = Descriptor(ends[1]);
  }
  Descriptor shard, client;
};

std::string Header(uint32_t size, uint32_t kind) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &size, 4);
  std::memcpy(bytes.data() + 4, &kind, 4);
  return bytes;
}

void Write(int socket, const std::string& bytes) {
  ASSERT_EQ(send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}

// A shard's end, whose client is this test.
struct AtShard {
  explicit AtShard(uint64_t frame_bytes_max = 1'000)
      : pipe(carrier::Side::kShard, std::move(pair.shard), frame_bytes_max) {}
  Pipe::Got Next(absl::Cord* frame) {
    pipe.OnSocket(EPOLLIN);
    return pipe.Next(frame);
  }
  int client() const { return pair.client.get(); }

  Pair pair;
  SocketPipe pipe;
};

TEST(SocketPipe, FramesComeWholeAndInOrder) {
  for (const int buffer : {1 << 12, 1 << 20}) {
    Pair pair;
    for (const int end : {pair.shard.get(), pair.client.get()}) {
      ASSERT_EQ(setsockopt(end, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer)), 0);
    }
    SocketPipe reader(carrier::Side::kShard, std::move(pair.shard), 1 << 20);
    SocketPipe writer(carrier::Side::kClient, std::move(pair.client), 1 << 20);
    std::mt19937 random(7);
    std::deque<std::string> sent;
    int begun = 0;
    int received = 0;
    while (received < 200) {
      if (random() % 2 == 0 && (writer.writing() || begun < 200)) {
        if (!writer.writing()) {
          const size_t sizes[] = {0, 1, 7, random() % 100, 2'048, 2'049, 32'760, random() % 300'000};
          std::string text(sizes[random() % std::size(sizes)], '\0');
          for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31 + begun);
          absl::Cord frame(absl::string_view(text).substr(0, text.size() / 2));
          frame.Append(absl::string_view(text).substr(text.size() / 2));
          sent.push_back(std::move(text));
          writer.Begin(FrameKind::kFrame, std::move(frame));
          ++begun;
        }
        if (writer.WriteOn() == Pipe::Wrote::kFull) writer.OnSocket(EPOLLOUT);
        continue;
      }
      reader.OnSocket(EPOLLIN);
      absl::Cord frame;
      while (reader.HasBytes() && received < 200) {
        const Pipe::Got got = reader.Next(&frame);
        ASSERT_NE(got, Pipe::Got::kDamaged) << reader.problem();
        if (got != Pipe::Got::kFrame) continue;
        ASSERT_FALSE(sent.empty());
        ASSERT_TRUE(frame == sent.front())
            << "frame " << received << " of " << sent.front().size() << " bytes";
        sent.pop_front();
        ++received;
      }
    }
  }
}

TEST(SocketPipe, ManySmallFramesComeWithOneRead) {
  AtShard end;
  Write(end.client(),
        Header(1, 1) + "a" + Header(0, 1) + Header(2, 1) + "bc" + Header(4, 2) + std::string(4, '\0'));
  absl::Cord frame;
  ASSERT_EQ(end.Next(&frame), Pipe::Got::kFrame);
  EXPECT_TRUE(frame == "a");
  EXPECT_TRUE(end.pipe.HasBytes());
  ASSERT_EQ(end.pipe.Next(&frame), Pipe::Got::kFrame);
  EXPECT_TRUE(frame.empty());
  ASSERT_EQ(end.pipe.Next(&frame), Pipe::Got::kFrame);
  EXPECT_TRUE(frame == "bc");
  ASSERT_EQ(end.pipe.Next(&frame), Pipe::Got::kEnd);
  EXPECT_TRUE(carrier::DecodeEnd(frame).ok());
  EXPECT_FALSE(end.pipe.HasBytes()) << "the socket tells of more";
}

TEST(SocketPipe, AFrameMayComeByteByByte) {
  AtShard end;
  absl::Cord frame;
  for (const char byte : Header(2, 1) + "o") {
    EXPECT_FALSE(end.pipe.HasBytes() && end.pipe.Next(&frame) != Pipe::Got::kNothing);
    Write(end.client(), std::string(1, byte));
    EXPECT_EQ(end.Next(&frame), Pipe::Got::kPiece);
  }
  EXPECT_TRUE(end.pipe.amid_frame());
  Write(end.client(), "k");
  ASSERT_EQ(end.Next(&frame), Pipe::Got::kFrame);
  EXPECT_TRUE(frame == "ok");
  EXPECT_FALSE(end.pipe.amid_frame());
}

TEST(SocketPipe, WhatBreaksTheRulesIsNotRead) {
  for (const auto& [header, problem] :
       {std::pair(Header(1'001, 1), "1001 bytes; at most 1000"), std::pair(Header(0, 3), "kind 3")}) {
    AtShard end;
    Write(end.client(), header);
    absl::Cord frame;
    EXPECT_EQ(end.Next(&frame), Pipe::Got::kDamaged);
    EXPECT_THAT(end.pipe.problem().message(), HasSubstr(problem));
    Write(end.client(), Header(0, 1));
    EXPECT_EQ(end.Next(&frame), Pipe::Got::kDamaged) << "for good";
  }
}

TEST(SocketPipe, TheShardAnswersAtOnce) {
  Pair pair;
  const SocketPipe shard(carrier::Side::kShard, std::move(pair.shard), 1'000);
  EXPECT_TRUE(shard.answer().has_value());
  SocketPipe client(carrier::Side::kClient, std::move(pair.client), 1'000);
  EXPECT_FALSE(client.answer().has_value());
  client.OnSocket(EPOLLIN);
  absl::Cord frame;
  EXPECT_EQ(client.Next(&frame), Pipe::Got::kPiece);
  ASSERT_TRUE(client.answer().has_value());
  EXPECT_TRUE(client.answer()->ok());
}

// The settings with which a gRPC server begins, whoever has connected.
TEST(SocketPipe, AnotherAnswerIsNone) {
  Pair pair;
  SocketPipe client(carrier::Side::kClient, std::move(pair.client), 1'000);
  Write(pair.shard.get(), std::string("\0\0\x06\x04\0\0\0\0\0\0\x05\0\x10\0\0", 15));
  client.OnSocket(EPOLLIN);
  absl::Cord frame;
  EXPECT_EQ(client.Next(&frame), Pipe::Got::kDamaged);
  ASSERT_TRUE(client.answer().has_value());
  EXPECT_THAT(client.answer()->message(), HasSubstr("gRPC only"));
}

TEST(SocketPipe, WhatCameBeforeTheEndIsRead) {
  Pair pair;
  SocketPipe client(carrier::Side::kClient, std::move(pair.client), 1'000);
  Write(pair.shard.get(), std::string(kMagic, sizeof(kMagic)) + Header(3, 1) + "abc" + Header(7, 1) + "x");
  pair.shard = Descriptor();
  client.OnSocket(EPOLLIN | EPOLLRDHUP | EPOLLHUP);
  EXPECT_FALSE(client.gone().has_value());
  absl::Cord frame;
  ASSERT_EQ(client.Next(&frame), Pipe::Got::kFrame);
  EXPECT_TRUE(frame == "abc");
  while (client.HasBytes() && !client.gone().has_value()) EXPECT_NE(client.Next(&frame), Pipe::Got::kFrame);
  EXPECT_TRUE(client.gone().has_value());
}

// A write that fails does not hide what the peer has said before.
TEST(SocketPipe, AWriteToNobodyEndsNothing) {
  Pair pair;
  SocketPipe client(carrier::Side::kClient, std::move(pair.client), 1'000);
  Write(pair.shard.get(), std::string(kMagic, sizeof(kMagic)) + Header(4, 2) + std::string(4, '\0'));
  pair.shard = Descriptor();
  client.Begin(FrameKind::kFrame, absl::Cord("unheard"));
  EXPECT_EQ(client.WriteOn(), Pipe::Wrote::kFull);
  EXPECT_TRUE(client.AwaitRoom());
  client.OnSocket(EPOLLIN | EPOLLRDHUP | EPOLLHUP);
  absl::Cord frame;
  EXPECT_EQ(client.Next(&frame), Pipe::Got::kEnd);
}

TEST(SocketPipe, AShardForgetsAClientThatIsGone) {
  AtShard end;
  Write(end.client(), Header(3, 1) + "abc");
  end.pair.client = Descriptor();
  end.pipe.OnSocket(EPOLLIN | EPOLLRDHUP);
  EXPECT_TRUE(end.pipe.gone().has_value());
}

TEST(SocketPipe, AFullOneTellsOfRoom) {
  AtShard end;
  end.pipe.Begin(FrameKind::kFrame, absl::Cord(std::string(4 << 20, 'x')));
  ASSERT_EQ(end.pipe.WriteOn(), Pipe::Wrote::kFull);
  EXPECT_TRUE(end.pipe.AwaitRoom());
  EXPECT_TRUE(end.pipe.writing());
  std::string drained(8 << 20, '\0');
  size_t got = 0;
  while (end.pipe.writing()) {
    const ssize_t some = recv(end.client(), drained.data(), drained.size(), MSG_DONTWAIT);
    if (some > 0) got += static_cast<size_t>(some);
    end.pipe.OnSocket(EPOLLOUT);
    EXPECT_TRUE(end.pipe.HasRoom());
    (void)end.pipe.WriteOn();
  }
  const ssize_t rest = recv(end.client(), drained.data(), drained.size(), MSG_DONTWAIT);
  if (rest > 0) got += static_cast<size_t>(rest);
  EXPECT_EQ(got, sizeof(kMagic) + 8 + (4 << 20));
}

}  // namespace
}  // namespace paceline::tcp
