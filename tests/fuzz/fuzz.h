#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The two functions of a fuzz target. Each target is one source with two functions, built twice: with
// libFuzzer where there is one (PACELINE_FUZZERS), and always with driver.cc, which is deterministic and runs
// as a test.

// Runs one input. No input crashes, leaks or breaks a property that FUZZ_CHECK states.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace paceline::fuzz {

struct Seed {
  std::string name;
  std::string bytes;
};
// Valid inputs to begin with, by a name that is good for a file.
std::vector<Seed> Seeds();

// A sequence of frames as one input, so that what mutates bytes can make streams too: each frame after its
// length in two bytes, little-endian. A last frame that is cut off counts as it is.
inline std::string JoinFrames(const std::vector<std::string>& frames) {
  std::string out;
  for (const std::string& frame : frames) {
    out.push_back(static_cast<char>(frame.size() & 0xff));
    out.push_back(static_cast<char>(frame.size() >> 8 & 0xff));
    out += frame;
  }
  return out;
}
inline std::vector<std::string> SplitFrames(std::string_view input) {
  std::vector<std::string> frames;
  while (input.size() >= 2) {
    const size_t size = static_cast<uint8_t>(input[0]) | static_cast<size_t>(static_cast<uint8_t>(input[1]))
                                                             << 8;
    frames.emplace_back(input.substr(2, size));
    input.remove_prefix(std::min(input.size(), size + 2));
  }
  return frames;
}

}  // namespace paceline::fuzz

// Ends the process as a crash, naming the property, so that either driver keeps the input.
#define FUZZ_CHECK(condition, property)                                                      \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      std::fprintf(stderr, "%s:%d: %s: not %s\n", __FILE__, __LINE__, property, #condition); \
      std::abort();                                                                          \
    }                                                                                        \
  } while (false)
