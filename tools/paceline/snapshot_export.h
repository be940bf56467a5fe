#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "libs/snapshot/files.h"
#include "paceline/v1/snapshot.pb.h"

namespace paceline::tool {

struct ExportOptions {
  bool npz = true;                  // numpy.load; otherwise safetensors.numpy.load_file
  bool slots = false;               // also the state that the update rules keep beside the values
  std::vector<std::string> tables;  // names; empty: all
  bool replace = false;             // an existing file of that name
};

// Writes a snapshot's rows to `path`, as arrays for other programs: a ranged table T as T, f32 [rows, dim],
// with the initial values of rows that were never updated; a sparse one as T.keys, u64 [n], and T.values, f32
// [n, dim], in no particular order; slots as T.slots, f32 [rows or n, slots a value, dim]. Takes the space of
// the file twice while it runs, and little memory. The file exists when this returns OK, and is unchanged
// otherwise. kDataLoss names a damaged file.
absl::Status ExportSnapshot(snapshot::Files& files, const v1::SnapshotManifest& manifest,
                            const ExportOptions& options, const std::string& path);

}  // namespace paceline::tool
