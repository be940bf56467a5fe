// Snapshots of jobs: a manifest that is read survives a round trip; rows of a file fit each other and are as
// many as its end says.
#include <memory>

#include "libs/base/crc32c.h"
#include "libs/base/little_endian.h"
#include "libs/snapshot/manifest.h"
#include "libs/snapshot/memory_files.h"
#include "libs/snapshot/segment_file.h"
#include "tests/fuzz/fuzz.h"

namespace paceline {
namespace {

// The first byte of the input: its first frame is a manifest.json, or all of it are the blocks of a file,
// each its kind in a byte and its payload; their checksums are right. Or it is a file as it is.
constexpr char kManifest = 'm';
constexpr char kBlocks = 'b';
constexpr char kFile = 'f';
constexpr char kName[] = "ctr-9-00ff00ff";

std::string InBlocks(absl::string_view input) {
  std::string file(snapshot::kMagic);
  for (const std::string& frame : fuzz::SplitFrames({input.data(), input.size()})) {
    if (frame.empty()) continue;
    std::string block(16, '\0');
    StoreU32(static_cast<uint8_t>(frame[0]), &block[4]);
    StoreU64(frame.size() - 1, &block[8]);
    block.append(frame, 1);
    StoreU32(Crc32c(std::string_view(block).substr(4)), block.data());
    file += block;
  }
  return file;
}

void ReadFile(std::string bytes) {
  snapshot::MemoryFiles files;
  files.folders[kName]["file"] = std::move(bytes);
  snapshot::FileDecoder decoder("file", *files.Open(kName, "file"));
  if (!decoder.Head().ok()) return;
  while (true) {
    const auto rows = decoder.Next();
    if (!rows.ok()) return;
    if (!rows->has_value()) break;
    const snapshot::RowsBlock& block = **rows;
    FUZZ_CHECK(block.keys.size() % 8 == 0, "keys are whole");
    FUZZ_CHECK(block.rows.size() == block.keys.size() / 8 * block.floats * sizeof(float),
               "a row for each key");
  }
  FUZZ_CHECK(decoder.bytes() == files.folders[kName]["file"].size(), "nothing comes after the end");
}

void ReadManifest(absl::string_view json) {
  snapshot::MemoryFiles files;
  auto& folder = files.folders[kName];
  folder["manifest.json"] = std::string(json);
  folder["manifest.crc32c"] =
      absl::StrCat(absl::Hex(Crc32c({json.data(), json.size()}), absl::kZeroPad8), "\n");
  (void)snapshot::ListSnapshots(files);
  const auto manifest = snapshot::ReadManifest(files, kName);
  if (!manifest.ok()) return;
  (void)snapshot::CheckFilesThere(files, *manifest);
  FUZZ_CHECK(snapshot::WriteManifest(files, *manifest).ok(), "what was read can be written");
  const auto again = snapshot::ReadManifest(files, kName);
  FUZZ_CHECK(again.ok(), "what was written can be read");
  std::string one;
  std::string two;
  manifest->SerializeToString(&one);
  again->SerializeToString(&two);
  FUZZ_CHECK(one == two, "manifests survive a round trip");
}

}  // namespace

std::vector<fuzz::Seed> fuzz::Seeds() {
  snapshot::FileEncoder encoder;
  const auto bytes = [](const auto& numbers) {
    return absl::string_view(reinterpret_cast<const char*>(numbers.data()),
                             numbers.size() * sizeof(numbers[0]));
  };
  const std::vector<uint64_t> keys = {7, 8};
  const std::vector<float> rows = {1, 0.5f, -2, 0.25f};
  const std::vector<std::string> blocks = {
      encoder.Head({.cut = 9,
                    .job = JobId(3),
                    .segment = SegmentId(0),
                    .ring_bits = 0,
                    .epoch = Epoch(2),
                    .lsn = Lsn(70),
                    .clock = 5}),
      encoder.Rows({.table = TableId(4), .floats = 2, .keys = bytes(keys), .rows = bytes(rows)}),
      encoder.End()};
  std::vector<std::string> frames;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const size_t head = 16 + (i == 0 ? snapshot::kMagic.size() : 0);
    frames.push_back(static_cast<char>(i + 1) + blocks[i].substr(head));
  }
  snapshot::MemoryFiles files;
  FUZZ_CHECK(files.MakeFolder(kName).ok(), "seeds are valid");
  v1::SnapshotManifest manifest;
  manifest.set_format(snapshot::kFormat);
  manifest.set_name(kName);
  manifest.set_job("ctr");
  manifest.set_clock(5);
  manifest.set_cluster(uint64_t{1} << 63);
  v1::SnapshotFile& file = *manifest.add_files();
  file.set_name("segment-0.cut-9.epoch-2");
  file.set_cut(9);
  file.add_workers()->set_clock(6);
  v1::Table& table = *manifest.add_tables();
  table.set_name("weights");
  table.mutable_schema()->set_dim(4);
  table.mutable_schema()->mutable_rule()->mutable_adagrad()->set_learning_rate(0.1f);
  FUZZ_CHECK(snapshot::WriteManifest(files, manifest).ok(), "seeds are valid");
  return {{"blocks", kBlocks + JoinFrames(frames)},
          {"file", kFile + blocks[0] + blocks[1] + blocks[2]},
          {"manifest", kManifest + files.folders[kName]["manifest.json"]}};
}

}  // namespace paceline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  if (size == 0) return 0;
  const absl::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (static_cast<char>(data[0])) {
    case kManifest:
      ReadManifest(input);
      break;
    case kBlocks:
      ReadFile(InBlocks(input));
      break;
    default:
      ReadFile(std::string(input));
  }
  return 0;
}
