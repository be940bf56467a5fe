// A TCP connection without gRPC whose other end is hostile: it sends whatever the input says, in pieces. What
// is read is what a plain parser finds in the same bytes, however they are cut; nothing blocks.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cstring>
#include <string>
#include <vector>

#include "libs/tcp/preamble.h"
#include "libs/tcp/socket_pipe.h"
#include "tests/fuzz/fuzz.h"

namespace paceline {
namespace {

constexpr uint64_t kFrameMax = 5'000;

// What comes of a connection.
struct Read {
  std::vector<std::string> frames;  // each with its kind in front
  bool damaged = false;
  friend bool operator==(const Read&, const Read&) = default;
};

Read Parse(absl::string_view bytes, bool awaits_answer) {
  Read read;
  if (awaits_answer && bytes.size() >= sizeof(tcp::kMagic)) {
    if (std::memcmp(bytes.data(), tcp::kMagic, sizeof(tcp::kMagic)) != 0)
      return {.frames = {}, .damaged = true};
    bytes.remove_prefix(sizeof(tcp::kMagic));
  } else if (awaits_answer) {
    return read;
  }
  while (bytes.size() >= 8) {
    uint32_t size = 0;
    uint32_t kind = 0;
    std::memcpy(&size, bytes.data(), 4);
    std::memcpy(&kind, bytes.data() + 4, 4);
    read.damaged = size > kFrameMax || (kind != 1 && kind != 2);
    if (read.damaged || bytes.size() - 8 < size) break;
    read.frames.push_back(std::to_string(kind) + std::string(bytes.substr(8, size)));
    bytes.remove_prefix(8 + size);
  }
  return read;
}

void ReadAll(tcp::SocketPipe& pipe, Read& read) {
  pipe.OnSocket(EPOLLIN);
  while (pipe.HasBytes() && !pipe.gone().has_value() && !read.damaged) {
    absl::Cord frame;
    switch (pipe.Next(&frame)) {
      case carrier::Pipe::Got::kNothing:
      case carrier::Pipe::Got::kPiece:
        break;
      case carrier::Pipe::Got::kFrame:
        read.frames.push_back("1" + std::string(frame));
        break;
      case carrier::Pipe::Got::kEnd:
        (void)carrier::DecodeEnd(frame);
        read.frames.push_back("2" + std::string(frame));
        break;
      case carrier::Pipe::Got::kDamaged:
        read.damaged = true;
        FUZZ_CHECK(!pipe.problem().ok(), "damage has a reason");
        break;
    }
  }
}

std::string Frame(uint32_t size, uint32_t kind, absl::string_view bytes) {
  std::string frame(reinterpret_cast<const char*>(&size), 4);
  frame.append(reinterpret_cast<const char*>(&kind), 4);
  return frame.append(bytes.data(), bytes.size());
}

}  // namespace

// The first byte: which end reads, and by how much the pieces grow.
std::vector<fuzz::Seed> fuzz::Seeds() {
  const std::string magic(tcp::kMagic, sizeof(tcp::kMagic));
  const std::string text(3'000, 'x');
  return {{"frames",
           '\2' + Frame(2, 1, "ab") + Frame(0, 1, "") + Frame(3'000, 1, text) + Frame(4, 2, "\1\1\1\1")},
          {"an_answer_and_a_frame", '\5' + magic + Frame(3'000, 1, text) + Frame(1, 1, "c")},
          {"another_answer", '\5' + std::string("\0\0\6\4\0\0\0\0\0", 9)},
          {"a_frame_too_large", '\4' + Frame(5'001, 1, text)},
          {"a_kind_that_nobody_knows", '\4' + Frame(1, 3, "c")}};
}

}  // namespace paceline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  if (size == 0 || size > 20'000) return 0;
  const bool at_client = data[0] % 2 == 1;
  const absl::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  int ends[2] = {};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) return 0;
  const carrier::Descriptor writer(ends[0]);
  tcp::SocketPipe pipe(at_client ? carrier::Side::kClient : carrier::Side::kShard,
                       carrier::Descriptor(ends[1]), kFrameMax);
  Read read;
  size_t piece = 1;
  for (size_t at = 0; at < bytes.size(); piece += 1 + data[0] / 2) {
    const absl::string_view some = bytes.substr(at, piece);
    if (send(writer.get(), some.data(), some.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(some.size()))
      return 0;
    at += some.size();
    ReadAll(pipe, read);
  }
  FUZZ_CHECK(read == Parse(bytes, at_client), "what is read does not depend on how it comes");
  return 0;
}
