// Runs a fuzz target as a test: replays the files of its corpus and its own seeds, then a number of mutations
// of them that follow from a fixed seed. An input that crashes is written to a file.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "google/protobuf/stubs/logging.h"
#include "libs/world/random.h"
#include "tests/fuzz/fuzz.h"

// Of the sanitizers' runtime, if there is one.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace paceline::fuzz {
namespace {

constexpr char kCrashFile[] = "fuzz-crash";  // in the working directory
constexpr size_t kInputBytesMax = 4096;

std::string current;  // the input under way
bool kept = false;

void KeepInput() {
  if (std::exchange(kept, true)) return;
  const int fd = open(kCrashFile, O_CREAT | O_TRUNC | O_WRONLY, 0644);
  if (fd < 0) return;
  if (write(fd, current.data(), current.size()) == static_cast<ssize_t>(current.size())) {
    constexpr char kSays[] = "fuzz: the input was written to ./fuzz-crash; replay it by naming that file\n";
    (void)!write(STDERR_FILENO, kSays, sizeof(kSays) - 1);
  }
  close(fd);
}

void OnSignal(int signal) {
  KeepInput();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void Run(std::string input) {
  current = std::move(input);
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(current.data()), current.size());
}

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Makes new inputs of old ones: a few small damages at a time, of the kinds that find holes in decoders.
class Mutator {
 public:
  Mutator(const std::vector<std::string>& corpus, uint64_t seed) : corpus_(corpus), random_(seed) {}

  std::string Next() {
    std::string input = Pick();
    for (uint64_t n = 1 + world::Uniform(random_, 4); n > 0; --n) Damage(input);
    if (input.size() > kInputBytesMax) input.resize(kInputBytesMax);
    return input;
  }

 private:
  const std::string& Pick() { return corpus_[world::Uniform(random_, corpus_.size())]; }
  // A position, or the end.
  size_t At(const std::string& input) { return world::Uniform(random_, input.size() + 1); }
  size_t Length(size_t max) { return max == 0 ? 0 : 1 + world::Uniform(random_, std::min<size_t>(max, 32)); }

  // Numbers at which arithmetic goes wrong.
  uint64_t Interesting() {
    constexpr uint64_t kNumbers[] = {0,
                                     1,
                                     2,
                                     3,
                                     7,
                                     8,
                                     15,
                                     16,
                                     24,
                                     48,
                                     63,
                                     64,
                                     127,
                                     128,
                                     255,
                                     256,
                                     1000,
                                     uint64_t{1} << 15,
                                     uint64_t{1} << 16,
                                     uint64_t{1} << 31,
                                     uint64_t{1} << 32,
                                     uint64_t{1} << 60,
                                     uint64_t{1} << 63};
    const uint64_t number = kNumbers[world::Uniform(random_, std::size(kNumbers))];
    switch (world::Uniform(random_, 4)) {
      case 0:
        return number - 1;
      case 1:
        return ~number;
      default:
        return number;
    }
  }

  void Damage(std::string& input) {
    const size_t at = At(input);
    const size_t rest = input.size() - at;
    switch (world::Uniform(random_, 9)) {
      case 0:
        if (rest > 0) input[at] = static_cast<char>(input[at] ^ (1 << world::Uniform(random_, 8)));
        return;
      case 1:
        if (rest > 0) input[at] = static_cast<char>(Interesting());
        return;
      case 2:
        return Overwrite(input, at, world::Chance(random_, 0.5) ? 4 : 8);
      case 3:
        input.erase(at, Length(rest));
        return;
      case 4:
        input.insert(at, Length(kInputBytesMax), static_cast<char>(random_.Next()));
        return;
      case 5: {  // a piece of itself once more
        const std::string piece = input.substr(at, Length(rest));
        input.insert(At(input), piece);
        return;
      }
      case 6: {  // a piece of another one
        const std::string& other = Pick();
        const size_t from = At(other);
        input.insert(at, other.substr(from, Length(other.size() - from)));
        return;
      }
      case 7: {  // goes on as another one does
        const std::string& other = Pick();
        input = input.substr(0, at) + other.substr(At(other));
        return;
      }
      default:
        input += Pick();
    }
  }

  void Overwrite(std::string& input, size_t at, size_t bytes) {
    const uint64_t number = Interesting();
    for (size_t i = 0; i < bytes && at + i < input.size(); ++i) {
      input[at + i] = static_cast<char>(number >> (8 * i));
    }
  }

  const std::vector<std::string>& corpus_;
  world::SplitMix64 random_;
};

int WriteCorpus(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  for (const Seed& seed : Seeds()) {
    std::ofstream(folder / seed.name, std::ios::binary) << seed.bytes;
  }
  return 0;
}

int Main(const std::vector<std::string>& arguments) {
  if (arguments.size() == 2 && arguments[0] == "--write-corpus") return WriteCorpus(arguments[1]);
  if (arguments.size() == 1) {
    Run(ReadFile(arguments[0]));
    return 0;
  }
  if (arguments.size() != 4 || arguments[0] != "--corpus" || arguments[2] != "--inputs") {
    std::fprintf(stderr,
                 "usage: --corpus FOLDER --inputs N   the folder's files, and N mutations of them\n"
                 "       --write-corpus FOLDER        the built-in seeds, as files\n"
                 "       FILE                         one input\n");
    return 2;
  }
  std::vector<std::string> corpus;
  for (const Seed& seed : Seeds()) corpus.push_back(seed.bytes);
  std::vector<std::filesystem::path> files;
  if (std::filesystem::exists(arguments[1])) {
    for (const auto& entry : std::filesystem::directory_iterator(arguments[1])) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());  // the same inputs in the same order everywhere
  for (const auto& file : files) corpus.push_back(ReadFile(file));
  for (const std::string& input : corpus) Run(input);
  const size_t inputs = std::stoul(arguments[3]);
  Mutator mutator(corpus, /*seed=*/1);
  for (size_t i = 0; i < inputs; ++i) Run(mutator.Next());
  std::printf("%zu seeds of which %zu are files, %zu mutations\n", corpus.size(), files.size(), inputs);
  return files.empty() ? 1 : 0;  // a corpus that is not where it is looked for would go unnoticed
}

}  // namespace
}  // namespace paceline::fuzz

int main(int argc, char** argv) {
  google::protobuf::SetLogHandler(nullptr);  // it has something to say of every other input
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL})
    std::signal(signal, paceline::fuzz::OnSignal);
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(paceline::fuzz::KeepInput);
  return paceline::fuzz::Main({argv + 1, argv + argc});
}
