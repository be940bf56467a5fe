#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "libs/snapshot/memory_files.h"
#include "services/coordinator/metadata/snapshots/snapshot_files.h"
#include "services/coordinator/metadata/test_util/test_shards.h"

namespace paceline::coordinator {

// Files in memory that are read and written at once, and a calendar, for tests.
class FilesAtOnce final : public SnapshotFiles {
 public:
  void Run(std::function<void(snapshot::Files&)> task, std::function<void()> done) override {
    if (hangs) return;
    task(files);
    done();
  }
  int64_t UnixSeconds() const override { return unix_s; }
  bool hangs = false;
  int64_t unix_s = 1'700'000'000;
  snapshot::MemoryFiles files;
};

// Segments write an empty file each when they are asked for a snapshot.
inline void WriteSnapshotsTo(FilesAtOnce& files, FakeShards& shards) {
  for (uint32_t s = 0; s < 8; ++s) {
    shards.Segment(s).write_snapshot = [&files](const std::string& folder, const std::string& file) {
      if (auto created = files.files.Create(folder, file); created.ok()) {
        EXPECT_TRUE((*created)->Commit().ok());
      }
    };
  }
}

}  // namespace paceline::coordinator
