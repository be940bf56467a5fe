#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/snapshot/files.h"
#include "libs/snapshot/segment_file.h"
#include "paceline/v1/coordinator.pb.h"
#include "paceline/v1/snapshot.pb.h"

// A snapshot's manifest, `manifest.json`, with its checksum in `manifest.crc32c`. A folder is a snapshot from
// the moment it has a manifest until the manifest is removed, the first step of deletion. docs/formats.md.
// Pure but for the Files that are passed in.
namespace paceline::snapshot {

inline constexpr uint32_t kFormat = 1;

// OK if every file that the manifest names exists: somebody may have deleted the folder meanwhile.
absl::Status CheckFilesThere(Files& files, const v1::SnapshotManifest& manifest);

// Writes the checksum, then the manifest. REQUIRES: the files that it names exist.
absl::Status WriteManifest(Files& files, const v1::SnapshotManifest& manifest);

// kNotFound: there is no such snapshot, or it was never completed. kDataLoss: the manifest is damaged or
// inconsistent. kFailedPrecondition: a newer release made it. kInvalidArgument: no snapshot can have this
// name.
absl::StatusOr<v1::SnapshotManifest> ReadManifest(Files& files, const std::string& name);

// True for the names that coordinators give: JOB-NUMBER-CLUSTER.
bool IsGivenName(absl::string_view name);

// Deletes the manifest first. kNotFound: the folder is neither a snapshot nor the remains of one.
absl::Status DeleteSnapshot(Files& files, const std::string& name);

struct Listing {
  std::vector<v1::SnapshotManifest> snapshots;  // by name, without their files' lists of workers
  std::vector<std::string> problems;            // folders with a manifest that cannot be read
  std::vector<std::string> incomplete;          // folders of snapshots that were never completed, or not yet
};
absl::StatusOr<Listing> ListSnapshots(Files& files);

// Opens a file of the snapshot and reads its head. kDataLoss: it is not the file that the manifest describes.
// Call CheckWhole after reading it to its end.
absl::StatusOr<FileDecoder> OpenFile(Files& files, const v1::SnapshotManifest& manifest,
                                     const v1::SnapshotFile& file);
absl::Status CheckWhole(const FileDecoder& decoder, const v1::SnapshotManifest& manifest,
                        const v1::SnapshotFile& file);

// A summary of the manifest.
v1::SnapshotInfo InfoOf(const v1::SnapshotManifest& manifest);

// Sums over the manifest's files.
uint64_t RowsOf(const v1::SnapshotManifest& manifest);
uint64_t BytesOf(const v1::SnapshotManifest& manifest);

}  // namespace paceline::snapshot
