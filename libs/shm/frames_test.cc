#include "libs/shm/frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace paceline::shm {
namespace {

using carrier::FrameKind;
using carrier::Pipe;
using ::testing::HasSubstr;

struct Memory {
  explicit Memory(uint64_t bytes) : data(bytes), words(std::make_unique<RingWords>()) {}
  RingWriter writer() { return {*words, data.data(), data.size()}; }
  RingReader reader() { return {*words, data.data(), data.size()}; }
  // As a peer that writes what it likes.
  void Write(const std::string& bytes) {
    RingWriter writer_here = writer();
    ASSERT_EQ(writer_here.Put(bytes.data(), bytes.size()), bytes.size());
    writer_here.Publish();
  }

  std::vector<char> data;
  std::unique_ptr<RingWords> words;
};

std::string Header(uint32_t size, uint32_t kind) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &size, 4);
  std::memcpy(bytes.data() + 4, &kind, 4);
  return bytes;
}

const auto kNoBell = [] {};

TEST(Frames, ComeWholeAndInOrderThroughAnyRing) {
  std::mt19937 random(7);
  for (const uint64_t bytes : {16, 512, 1 << 17}) {
    Memory memory(bytes);
    FrameWriter writer(memory.writer());
    FrameReader reader(memory.reader(), 1 << 20);
    std::deque<std::string> sent;
    int begun = 0;
    int received = 0;
    while (received < 60) {
      if (random() % 2 == 0 && (writer.writing() || begun < 60)) {
        if (!writer.writing()) {
          const size_t sizes[] = {0, 1, 7, random() % 100, 2'048, 2'049, random() % 300'000};
          std::string text(sizes[random() % std::size(sizes)], '\0');
          for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31 + begun);
          sent.push_back(text);
          absl::Cord frame(absl::string_view(text).substr(0, text.size() / 2));
          frame.Append(absl::string_view(text).substr(text.size() / 2));
          writer.Begin(FrameKind::kFrame, std::move(frame));
          ++begun;
        }
        ASSERT_NE(writer.Continue(kNoBell), Pipe::Wrote::kDamaged);
        continue;
      }
      absl::Cord frame;
      const Pipe::Got got = reader.Next(&frame, kNoBell);
      ASSERT_NE(got, Pipe::Got::kDamaged);
      if (got != Pipe::Got::kFrame) continue;
      ASSERT_FALSE(sent.empty());
      ASSERT_TRUE(frame == sent.front()) << "frame " << received << " of " << sent.front().size() << " bytes";
      sent.pop_front();
      ++received;
    }
  }
}

TEST(Frames, AreCopiesOfTheRing) {
  Memory memory(1 << 16);
  FrameWriter writer(memory.writer());
  FrameReader reader(memory.reader(), 1 << 20);
  const std::string text(10'000, 'x');
  writer.Begin(FrameKind::kFrame, absl::Cord(text));
  ASSERT_EQ(writer.Continue(kNoBell), Pipe::Wrote::kAll);
  absl::Cord frame;
  ASSERT_EQ(reader.Next(&frame, kNoBell), Pipe::Got::kFrame);
  std::fill(memory.data.begin(), memory.data.end(), 'y');  // the peer changes what it has sent
  EXPECT_TRUE(frame == text);
}

TEST(Frames, AFrameThatIsTooLargeEndsTheStream) {
  Memory memory(4096);
  memory.Write(Header(1001, 1));
  FrameReader reader(memory.reader(), 1000);
  absl::Cord frame;
  EXPECT_EQ(reader.Next(&frame, kNoBell), Pipe::Got::kDamaged);
  EXPECT_THAT(reader.problem().message(), HasSubstr("1001 bytes; at most 1000"));
  EXPECT_EQ(reader.Next(&frame, kNoBell), Pipe::Got::kDamaged) << "for good";
}

TEST(Frames, AnUnknownKindEndsTheStream) {
  Memory memory(4096);
  memory.Write(Header(0, 3));
  FrameReader reader(memory.reader(), 1000);
  absl::Cord frame;
  EXPECT_EQ(reader.Next(&frame, kNoBell), Pipe::Got::kDamaged);
  EXPECT_THAT(reader.problem().message(), HasSubstr("kind 3"));
}

TEST(Frames, AHeaderMayComeByteByByte) {
  Memory memory(4096);
  FrameReader reader(memory.reader(), 1000);
  RingWriter writer = memory.writer();
  absl::Cord frame;
  for (const char byte : Header(2, 1) + "o") {
    EXPECT_EQ(reader.Next(&frame, kNoBell), Pipe::Got::kNothing);
    writer.Put(&byte, 1);
    writer.Publish();
    EXPECT_EQ(reader.Next(&frame, kNoBell), Pipe::Got::kPiece);
  }
  writer.Put("k", 1);
  writer.Publish();
  ASSERT_EQ(reader.Next(&frame, kNoBell), Pipe::Got::kFrame);
  EXPECT_TRUE(frame == "ok");
}

}  // namespace
}  // namespace paceline::shm
