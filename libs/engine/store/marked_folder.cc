#include "libs/engine/store/marked_folder.h"

#include <rocksdb/sst_file_reader.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "libs/base/crc32c.h"
#include "libs/base/status.h"
#include "libs/engine/store/marked_files.h"
#include "libs/engine/store/rocksdb_common.h"

namespace paceline::engine {
namespace {

using rocksdb::IOOptions;
using rocksdb::IOStatus;

constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr char kCurrent[] = "CURRENT";

bool IsTable(const std::string& name) {
  return absl::EndsWith(name, ".sst");
}

// OK if the file is the one that was written with this number for the database of `identity`.
rocksdb::Status CheckTable(rocksdb::Env* env, const std::string& path, const std::string& identity) {
  rocksdb::Options options;
  options.env = env;
  rocksdb::SstFileReader reader(options);
  rocksdb::Status status = reader.Open(path);
  if (status.ok()) status = reader.VerifyChecksum();
  if (!status.ok()) return status;
  const auto properties = reader.GetTableProperties();
  uint64_t number = 0;
  const bool same = absl::SimpleAtoi(NameOf(path).substr(0, NameOf(path).find('.')), &number) &&
                    number == properties->orig_file_number && identity == properties->db_id;
  return same ? status : rocksdb::Status::Corruption("it is another database's, or another table");
}

}  // namespace

MarkedFolder::MarkedFolder(std::shared_ptr<rocksdb::FileSystem> files, std::string dir, Words words)
    : files_(std::move(files)), dir_(std::move(dir)), words_(std::move(words)) {}

absl::StatusOr<std::unique_ptr<MarkedFolder>> MarkedFolder::Open(std::shared_ptr<rocksdb::FileSystem> files,
                                                                 std::string dir, Words words,
                                                                 uint64_t format, ReadFormat read_format) {
  auto folder = absl::WrapUnique(new MarkedFolder(std::move(files), std::move(dir), std::move(words)));
  ABSL_RETURN_IF_ERROR(folder->Start(format, read_format));
  return folder;
}

absl::Status MarkedFolder::Start(uint64_t format, ReadFormat read_format) {
  FoundMark found;
  if (Has(kMarkFile)) {
    ABSL_ASSIGN_OR_RETURN(found, Read());
  } else {
    ABSL_RETURN_IF_ERROR(MayHaveNone(format, read_format));
    ABSL_ASSIGN_OR_RETURN(found, Create());
  }
  position_ = found.mark.position;
  half_ = !found.other_empty && !found.other_whole;
  std::unique_ptr<rocksdb::FSRandomRWFile> file;
  ABSL_RETURN_IF_ERROR(DiskStatus(
      files_->NewRandomRWFile(Path(kMarkFile), rocksdb::FileOptions(), &file, nullptr), "opening"));
  marks_ = std::make_unique<MarkWriter>(std::move(file), std::move(found));
  env_ = WithMarks(files_, *marks_);
  return DiskStatus(marks_->WriteAgain(), absl::StrCat("writing ", Path(kMarkFile)));
}

absl::Status MarkedFolder::MayHaveNone(uint64_t format, ReadFormat read_format) const {
  std::vector<std::string> names;
  ABSL_RETURN_IF_ERROR(DiskStatus(files_->GetChildren(dir_, IOOptions(), &names, nullptr), "listing"));
  const bool has_data =
      std::ranges::any_of(names, [](const std::string& name) { return IsLog(name) || IsTable(name); });
  if (!Has(kCurrent)) {
    return has_data ? Refused(absl::StrCat(Path(kCurrent), " is missing")) : absl::OkStatus();
  }
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(files_);
  ABSL_ASSIGN_OR_RETURN(const uint64_t found, read_format(env.get()));
  if (found < format) return absl::OkStatus();
  return Refused(absl::StrCat(Path(kMarkFile), " is missing; a folder of format ", found, " has one"));
}

// Writes the whole mark file, or leaves none.
absl::StatusOr<FoundMark> MarkedFolder::Create() const {
  FoundMark found{.mark = {.count = 1, .files = {}}, .slot = 0, .other_empty = true};
  ABSL_ASSIGN_OR_RETURN(std::string bytes, EncodeMark(found.mark));
  bytes.resize(2 * kMarkSlotBytes, '\0');
  const std::string begun = Path(absl::StrCat(kMarkFile, ".begun"));
  IOStatus written = rocksdb::WriteStringToFile(files_.get(), bytes, begun, /*should_sync=*/true);
  if (written.ok()) written = files_->RenameFile(begun, Path(kMarkFile), IOOptions(), nullptr);
  if (written.ok()) written = SyncFolder(*files_, dir_);
  ABSL_RETURN_IF_ERROR(DiskStatus(written, absl::StrCat("writing ", Path(kMarkFile))));
  return found;
}

absl::StatusOr<FoundMark> MarkedFolder::Read() const {
  std::string bytes;
  ABSL_RETURN_IF_ERROR(DiskStatus(rocksdb::ReadFileToString(files_.get(), Path(kMarkFile), &bytes),
                                  absl::StrCat("reading ", Path(kMarkFile))));
  absl::StatusOr<FoundMark> found = NewestMark(bytes);
  if (found.ok()) return found;
  return Refused(absl::StrCat(Path(kMarkFile), " is damaged: ", found.status().message()));
}

absl::Status MarkedFolder::Check() const {
  const SyncedMark mark = marks_->known();
  ABSL_RETURN_IF_ERROR(CheckCurrent(mark));
  const absl::Status found =
      CheckFiles(mark, [this](const std::string& name, uint64_t bytes) { return Prefix(name, bytes); });
  if (!absl::IsDataLoss(found)) return found;
  return Refused(absl::StrCat(Path(found.message()), ", says ", Path(kMarkFile),
                              half_ ? ", of whose two marks one is damaged" : ""));
}

absl::Status MarkedFolder::CheckCurrent(const SyncedMark& mark) const {
  if (!mark.current) return absl::OkStatus();
  if (!Has(kCurrent)) return Refused(absl::StrCat(Path(kCurrent), " is missing"));
  std::string bytes;
  ABSL_RETURN_IF_ERROR(DiskStatus(rocksdb::ReadFileToString(files_.get(), Path(kCurrent), &bytes),
                                  absl::StrCat("reading ", Path(kCurrent))));
  std::string expected;
  for (const SyncedMark::File& file : mark.files) {
    if (!IsManifest(file.name)) continue;
    if (bytes == absl::StrCat(file.name, "\n")) return absl::OkStatus();
    absl::StrAppend(&expected, expected.empty() ? "" : " or ", file.name);
  }
  return Refused(absl::StrCat(Path(kCurrent), " is damaged, or is another file: it says \"",
                              absl::CHexEscape(bytes.substr(0, 64)), "\"; expected ", expected, ", says ",
                              Path(kMarkFile)));
}

absl::Status MarkedFolder::CheckPosition(uint64_t position) const {
  if (position >= position_) return absl::OkStatus();
  return Refused(absl::StrCat(dir_, " has everything up to number ", position, "; it was synced up to ",
                              position_, ", says ", Path(kMarkFile)));
}

absl::Status MarkedFolder::Named(absl::Status status) const {
  if (!absl::IsDataLoss(status)) return status;
  // For a missing table RocksDB looks for, and reports, the name that tables had in its earlier releases.
  const std::string said = absl::StrReplaceAll(status.message(), {{".ldb", ".sst"}});
  const std::string damaged = DamagedTables();
  return absl::DataLossError(
      absl::StrCat(said, damaged.empty() ? "" : "; damaged: ", damaged, ". ", words_.remedy));
}

std::string MarkedFolder::DamagedTables() const {
  std::vector<std::string> names;
  std::string identity;
  if (!files_->GetChildren(dir_, IOOptions(), &names, nullptr).ok() ||
      !rocksdb::ReadFileToString(files_.get(), Path("IDENTITY"), &identity).ok()) {
    return "";
  }
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(files_);
  std::string damaged;
  for (const std::string& name : names) {
    if (!IsTable(name)) continue;
    const rocksdb::Status status = CheckTable(env.get(), Path(name), identity);
    if (!status.ok())
      absl::StrAppend(&damaged, damaged.empty() ? "" : ", ", Path(name), " (", status.ToString(), ")");
  }
  return damaged;
}

absl::Status MarkedFolder::Reached(uint64_t position) {
  marks_->Reached(position);
  if (marks_->status().ok()) return absl::OkStatus();
  return DiskStatus(marks_->WriteNow(), absl::StrCat("writing ", Path(kMarkFile)));
}

absl::StatusOr<SyncedMark::File> MarkedFolder::Prefix(const std::string& name, uint64_t bytes) const {
  const std::string path = Path(name);
  if (!Has(name)) return absl::NotFoundError(path);
  std::unique_ptr<rocksdb::FSSequentialFile> file;
  ABSL_RETURN_IF_ERROR(
      DiskStatus(files_->NewSequentialFile(path, rocksdb::FileOptions(), &file, nullptr), "reading " + path));
  SyncedMark::File found{.name = name};
  std::string chunk(kChunkBytes, '\0');
  while (found.bytes < bytes) {
    rocksdb::Slice read;
    ABSL_RETURN_IF_ERROR(DiskStatus(file->Read(std::min<uint64_t>(kChunkBytes, bytes - found.bytes),
                                               IOOptions(), &read, chunk.data(), nullptr),
                                    "reading " + path));
    if (read.empty()) break;
    found.bytes += read.size();
    found.crc32c = ExtendCrc32c(found.crc32c, {read.data(), read.size()});
  }
  return found;
}

std::string MarkedFolder::Path(absl::string_view name) const {
  return absl::StrCat(dir_, "/", name);
}

bool MarkedFolder::Has(absl::string_view name) const {
  return !files_->FileExists(Path(name), IOOptions(), nullptr).IsNotFound();
}

absl::Status MarkedFolder::Refused(absl::string_view why) const {
  return absl::DataLossError(absl::StrCat(words_.whose, ": ", why, ". ", words_.remedy));
}

absl::Status MarkedFolder::DiskStatus(const rocksdb::Status& status, absl::string_view what) const {
  return Translated(status, words_.whose, what);
}

}  // namespace paceline::engine
