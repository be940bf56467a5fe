// Models of other programs: every accepted .npy header, a .safetensors header or a .npz file has the bytes
// that its shape says, and becomes a snapshot, or is refused.
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "libs/base/little_endian.h"
#include "libs/snapshot/manifest.h"
#include "libs/snapshot/memory_files.h"
#include "tests/fuzz/fuzz.h"
#include "tools/paceline/arrays.h"
#include "tools/paceline/snapshot_import.h"

namespace paceline {
namespace {

// The first byte of the input.
constexpr char kNpy = 'n';
constexpr char kSafetensors = 's';  // then the bytes of data (8), then the header
constexpr char kNpz = 'z';
// Of arrays that are read: an archive may say that it unpacks to much more than it is.
constexpr uint64_t kReadMax = uint64_t{1} << 16;

class BytesSource final : public snapshot::Source {
 public:
  explicit BytesSource(absl::string_view bytes) : left_(bytes) {}
  absl::StatusOr<size_t> Read(char* to, size_t size) override {
    const size_t got = left_.copy(to, size);
    left_.remove_prefix(got);
    return got;
  }
  absl::string_view left() const { return left_; }

 private:
  absl::string_view left_;
};

void ReadNpy(absl::string_view input) {
  BytesSource source(input);
  uint64_t header = 0;
  const auto array = tool::ReadNpyHeader(source, &header);
  if (!array.ok()) return;
  FUZZ_CHECK(header == input.size() - source.left().size(), "the source is behind the header");
  FUZZ_CHECK(array->shape.size() <= tool::kDimensionsMax, "dimensions are bounded");
  (void)tool::BytesOf(*array);
  if (array->shape.size() > 3) return;
  const std::string written = tool::NpyHeader(*array);
  BytesSource again(written);
  const auto read = tool::ReadNpyHeader(again, &header);
  FUZZ_CHECK(read.ok() && *read == *array && header == tool::kNpyHeaderBytes, "headers survive a round trip");
}

void ReadSafetensors(absl::string_view input) {
  if (input.size() < 8) return;
  const uint64_t data = LoadU64(input.data());
  const auto tensors = tool::ParseSafetensors(input.substr(8), data);
  if (!tensors.ok()) return;
  uint64_t sum = 0;
  for (const auto& [name, tensor] : *tensors) {
    const auto bytes = tool::BytesOf(tensor.shape);
    FUZZ_CHECK(bytes.ok() && tensor.begin <= data && *bytes <= data - tensor.begin, "arrays are in the file");
    sum += *bytes;
  }
  FUZZ_CHECK(sum == data, "arrays are all of the file");
}

void ReadNpz(absl::string_view input) {
  const auto npz = tool::OpenNpzInMemory(input);
  if (!npz.ok()) return;
  uint64_t bytes = 0;
  for (const auto& [name, array] : (*npz)->arrays()) bytes += tool::BytesOf(array).value();
  if (bytes > kReadMax) return;
  const auto tables = tool::TablesOf(**npz, {});
  if (!tables.ok()) return;
  snapshot::MemoryFiles files;
  const auto imported = tool::ImportArrays(files, **npz, *tables, {.snapshot = "m-1-00000000", .job = "m"});
  FUZZ_CHECK(imported.ok() || files.folders.empty(), "nothing is left of what was refused");
  if (!imported.ok()) return;
  const auto read = snapshot::ReadManifest(files, "m-1-00000000");
  FUZZ_CHECK(read.ok() && snapshot::CheckFilesThere(files, *read).ok(), "what was imported is a snapshot");
}

}  // namespace

std::vector<fuzz::Seed> fuzz::Seeds() {
  using tool::ArrayType;
  const std::string dense =
      tool::NpyHeader({.type = ArrayType::kF32, .shape = {2, 1}}) + std::string(8, '\0');
  const std::string keys = tool::NpyHeader({.type = ArrayType::kU64, .shape = {1}}) + std::string(8, '\1');
  const std::string values = tool::NpyHeader({.type = ArrayType::kF32, .shape = {1}}) + std::string(4, '\0');
  char pattern[] = "/tmp/paceline-arrays-fuzz-XXXXXX";
  const std::filesystem::path folder = mkdtemp(pattern);
  std::vector<tool::ZipMember> members;
  for (const auto& [name, bytes] :
       {std::pair("dense.npy", dense), std::pair("s.keys.npy", keys), std::pair("s.values.npy", values)}) {
    std::ofstream(folder / name, std::ios::binary) << bytes;
    members.push_back({.name = name, .file = folder / name});
  }
  FUZZ_CHECK(tool::WriteZip(members, folder / "zip").ok(), "seeds are valid");
  std::ifstream file(folder / "zip", std::ios::binary);
  const std::string zip(std::istreambuf_iterator<char>(file), {});
  std::filesystem::remove_all(folder);
  std::string safetensors(9, kSafetensors);
  StoreU64(16, &safetensors[1]);
  safetensors += R"({"__metadata__":{"job":"ctr"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)";
  safetensors += R"("k":{"dtype":"U64","shape":[1],"data_offsets":[8,16]}})";
  return {{"npy", kNpy + dense}, {"npz", kNpz + zip}, {"safetensors", safetensors}};
}

}  // namespace paceline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  if (size == 0) return 0;
  const absl::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (static_cast<char>(data[0])) {
    case kNpy:
      ReadNpy(input);
      break;
    case kSafetensors:
      ReadSafetensors(input);
      break;
    default:
      ReadNpz(input);
  }
  return 0;
}
