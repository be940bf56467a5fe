#include "libs/snapshot/manifest.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "libs/base/crc32c.h"
#include "libs/base/status.h"
#include "libs/base/text.h"

namespace paceline::snapshot {
namespace {

constexpr char kManifestFile[] = "manifest.json";
constexpr char kChecksumFile[] = "manifest.crc32c";
constexpr size_t kManifestBytesMax = size_t{256} << 20;

std::string Checksum(const std::string& json) {
  return absl::StrCat(absl::Hex(Crc32c(json), absl::kZeroPad8), "\n");
}

absl::Status Write(Files& files, const std::string& folder, const std::string& file,
                   absl::string_view bytes) {
  ABSL_ASSIGN_OR_RETURN(const std::unique_ptr<NewFile> to, files.Create(folder, file));
  ABSL_RETURN_IF_ERROR(to->Append(bytes));
  return to->Commit();
}

absl::Status Damaged(const std::string& name, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(name, "/", kManifestFile, ": ", what,
                                          "; take another copy of the snapshot, or another snapshot"));
}

absl::Status NoSuch(const std::string& name) {
  return absl::NotFoundError(absl::StrCat("snapshot '", name, "' does not exist, or was never completed; ",
                                          "`paceline snapshot list` shows those that exist"));
}

// Checked because a directory is shared and may come from elsewhere.
absl::Status CheckTexts(const v1::SnapshotManifest& manifest) {
  if (!manifest.job().empty()) ABSL_RETURN_IF_ERROR(CheckName("job", manifest.job()));
  for (const v1::Table& table : manifest.tables()) {
    if (!table.name().empty()) ABSL_RETURN_IF_ERROR(CheckName("tables.name", table.name()));
  }
  return CheckText("version", manifest.version());
}

absl::Status Check(const std::string& name, const v1::SnapshotManifest& manifest) {
  if (manifest.format() != kFormat) {
    return absl::FailedPreconditionError(absl::StrCat(
        name, "/", kManifestFile, ": format ", manifest.format(), "; this release reads format ", kFormat));
  }
  if (const absl::Status texts = CheckTexts(manifest); !texts.ok()) return Damaged(name, texts.message());
  if (manifest.name() != name)
    return Damaged(name, absl::StrCat("it is of '", Escaped(manifest.name()), "'"));
  std::set<uint32_t> segments;
  for (const v1::SnapshotFile& file : manifest.files()) {
    if (!CheckFileName(file.name()).ok()) return Damaged(name, "it names a file by an impossible name");
    if (!segments.insert(file.segment()).second) return Damaged(name, "it names a segment twice");
  }
  if (manifest.ring_bits() > 16 || segments.size() != size_t{1} << manifest.ring_bits()) {
    return Damaged(name, absl::StrCat(segments.size(), " files for a ring of 2^", manifest.ring_bits()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFilesThere(Files& files, const v1::SnapshotManifest& manifest) {
  for (const v1::SnapshotFile& file : manifest.files()) {
    ABSL_RETURN_IF_ERROR(files.Open(manifest.name(), file.name()).status());
  }
  return absl::OkStatus();
}

absl::Status WriteManifest(Files& files, const v1::SnapshotManifest& manifest) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  if (const auto made = google::protobuf::util::MessageToJsonString(manifest, &json, options); !made.ok()) {
    return absl::InternalError(absl::StrCat("manifest: ", std::string(made.message())));
  }
  // A manifest without data loss has the same bytes that earlier releases wrote. (JSON strings contain no raw
  // line breaks, so this matches no text.)
  absl::StrReplaceAll({{",\n \"data_lost\": \"\"", ""}}, &json);
  ABSL_RETURN_IF_ERROR(Write(files, manifest.name(), kChecksumFile, Checksum(json)));
  return Write(files, manifest.name(), kManifestFile, json);
}

absl::StatusOr<v1::SnapshotManifest> ReadManifest(Files& files, const std::string& name) {
  ABSL_RETURN_IF_ERROR(CheckFileName(name));
  const absl::StatusOr<std::string> json = ReadAll(files, name, kManifestFile, kManifestBytesMax);
  if (absl::IsNotFound(json.status())) return NoSuch(name);
  if (!json.ok()) return json.status();
  const absl::StatusOr<std::string> checksum = ReadAll(files, name, kChecksumFile, 64);
  if (!checksum.ok() || *checksum != Checksum(*json)) return Damaged(name, "it does not match its checksum");
  v1::SnapshotManifest manifest;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto parsed = google::protobuf::util::JsonStringToMessage(*json, &manifest, options);
  if (!parsed.ok()) return Damaged(name, std::string(parsed.message()));
  ABSL_RETURN_IF_ERROR(Check(name, manifest));
  return manifest;
}

bool IsGivenName(absl::string_view name) {
  const size_t cluster = name.rfind('-');
  if (cluster == absl::string_view::npos || cluster == 0 || name.size() - cluster != 9) return false;
  const size_t number = name.rfind('-', cluster - 1);
  if (number == absl::string_view::npos || number + 1 == cluster) return false;
  return std::ranges::all_of(name.substr(cluster + 1),
                             [](char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); }) &&
         std::ranges::all_of(name.substr(number + 1, cluster - number - 1),
                             [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); });
}

absl::Status DeleteSnapshot(Files& files, const std::string& name) {
  ABSL_RETURN_IF_ERROR(CheckFileName(name));
  // Anything else in the directory is not ours to remove.
  ABSL_ASSIGN_OR_RETURN(const std::vector<std::string> folders, files.Folders());
  const absl::Status manifest = files.Open(name, kManifestFile).status();
  const bool remains = IsGivenName(name) && std::ranges::count(folders, name) > 0;
  if (absl::IsNotFound(manifest) && !remains) return NoSuch(name);
  ABSL_RETURN_IF_ERROR(files.Remove(name, kManifestFile));
  return files.RemoveFolder(name);
}

absl::StatusOr<Listing> ListSnapshots(Files& files) {
  ABSL_ASSIGN_OR_RETURN(const std::vector<std::string> folders, files.Folders());
  Listing listing;
  for (const std::string& name : folders) {
    absl::StatusOr<v1::SnapshotManifest> manifest = ReadManifest(files, name);
    if (manifest.ok()) {
      for (v1::SnapshotFile& file : *manifest->mutable_files()) file.clear_workers();
      listing.snapshots.push_back(*std::move(manifest));
    } else if (absl::IsNotFound(manifest.status())) {
      if (IsGivenName(name)) listing.incomplete.push_back(name);
    } else if (!absl::IsInvalidArgument(manifest.status())) {
      listing.problems.emplace_back(manifest.status().message());
    }
  }
  return listing;
}

absl::StatusOr<FileDecoder> OpenFile(Files& files, const v1::SnapshotManifest& manifest,
                                     const v1::SnapshotFile& file) {
  const std::string path = absl::StrCat(manifest.name(), "/", file.name());
  absl::StatusOr<std::unique_ptr<Source>> source = files.Open(manifest.name(), file.name());
  if (absl::IsNotFound(source.status())) {
    return absl::DataLossError(absl::StrCat(path, ": the manifest names it, but it does not exist"));
  }
  if (!source.ok()) return source.status();
  FileDecoder decoder(path, *std::move(source));
  ABSL_ASSIGN_OR_RETURN(const FileHead head, decoder.Head());
  if (head.cut == file.cut() && head.segment.v == file.segment() && head.lsn.v == file.lsn()) return decoder;
  return absl::DataLossError(absl::StrCat(path, ": it is of cut ", head.cut, ", segment ", head.segment.v,
                                          ", record ", head.lsn.v, "; the manifest expects cut ", file.cut(),
                                          ", segment ", file.segment(), ", record ", file.lsn()));
}

absl::Status CheckWhole(const FileDecoder& decoder, const v1::SnapshotManifest& manifest,
                        const v1::SnapshotFile& file) {
  if (decoder.bytes() == file.bytes() && decoder.crc32c() == file.crc32c()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(manifest.name(), "/", file.name(), ": ", decoder.bytes(),
                                          " bytes with checksum ", absl::Hex(decoder.crc32c()),
                                          "; the manifest expects ", file.bytes(), " with ",
                                          absl::Hex(file.crc32c()), ": another file has taken its place"));
}

uint64_t RowsOf(const v1::SnapshotManifest& manifest) {
  uint64_t rows = 0;
  for (const v1::SnapshotFile& file : manifest.files()) rows += file.rows();
  return rows;
}

uint64_t BytesOf(const v1::SnapshotManifest& manifest) {
  uint64_t bytes = 0;
  for (const v1::SnapshotFile& file : manifest.files()) bytes += file.bytes();
  return bytes;
}

v1::SnapshotInfo InfoOf(const v1::SnapshotManifest& manifest) {
  v1::SnapshotInfo info;
  info.set_name(manifest.name());
  info.set_job(manifest.job());
  info.set_clock(manifest.clock());
  info.set_exact(manifest.exact());
  info.set_data_lost(manifest.data_lost());
  info.set_created_unix_s(manifest.created_unix_s());
  info.set_tables(static_cast<uint32_t>(manifest.tables_size()));
  info.set_files(static_cast<uint32_t>(manifest.files_size()));
  info.set_rows(RowsOf(manifest));
  info.set_bytes(BytesOf(manifest));
  for (const v1::Table& table : manifest.tables()) {
    if (table.holds_back()) info.add_held_back(table.name());
  }
  return info;
}

}  // namespace paceline::snapshot
