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

// What is in a snapshot: its manifest, `manifest.json`, with the checksum of it in `manifest.crc32c`. A
// folder is a snapshot from the moment its manifest is there until it is removed, which is the first step of
// its deletion. docs/formats.md. Pure but for the Files that are passed in.
namespace paceline::snapshot {

inline constexpr uint32_t kFormat = 1;

// OK if every file that the manifest names is there: somebody may have deleted the folder meanwhile.
absl::Status CheckFilesThere(Files& files, const v1::SnapshotManifest& manifest);

// Writes the checksum, then the manifest. The files that it names must be there by then.
absl::Status WriteManifest(Files& files, const v1::SnapshotManifest& manifest);

// kNotFound: there is no such snapshot, or it was never completed. kDataLoss: the manifest is damaged, or
// does not make sense. kFailedPrecondition: a newer release made it. kInvalidArgument: no such name can be.
absl::StatusOr<v1::SnapshotManifest> ReadManifest(Files& files, const std::string& name);

// True for the names that coordinators give: JOB-NUMBER-CLUSTER.
bool IsGivenName(absl::string_view name);

// The manifest first. kNotFound: it is no snapshot, nor what is left of one.
absl::Status DeleteSnapshot(Files& files, const std::string& name);

struct Listing {
  std::vector<v1::SnapshotManifest> snapshots;  // by name, without their files' lists of workers
  std::vector<std::string> problems;            // folders with a manifest that cannot be read
  std::vector<std::string> incomplete;          // folders of snapshots that were never completed, or not yet
};
absl::StatusOr<Listing> ListSnapshots(Files& files);

// Opens a file of the snapshot and reads its head. kDataLoss: it is not what the manifest says. Whoever has
// read it to its end asks CheckWhole.
absl::StatusOr<FileDecoder> OpenFile(Files& files, const v1::SnapshotManifest& manifest,
                                     const v1::SnapshotFile& file);
absl::Status CheckWhole(const FileDecoder& decoder, const v1::SnapshotManifest& manifest,
                        const v1::SnapshotFile& file);

// What is told of it in short.
v1::SnapshotInfo InfoOf(const v1::SnapshotManifest& manifest);

// Sums over its files.
uint64_t RowsOf(const v1::SnapshotManifest& manifest);
uint64_t BytesOf(const v1::SnapshotManifest& manifest);

}  // namespace paceline::snapshot
