#pragma once

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <memory>
#include <string>

#include "libs/engine/store/mark_writer.h"

namespace paceline::engine {

// Files of `base` for a database of which `marks` keeps the mark: each sync of a write-ahead log or a
// MANIFEST is noted there. Where the mark must be on the disk first, it is written first: before a file that
// it has is deleted, before a next log is begun (so that only the newest may reach beyond its mark), and
// before CURRENT names another MANIFEST. `marks` outlives the files.
std::unique_ptr<rocksdb::Env> WithMarks(std::shared_ptr<rocksdb::FileSystem> base, MarkWriter& marks);

// In whatever folder.
std::string NameOf(const std::string& path);
bool IsLog(const std::string& name);
bool IsManifest(const std::string& name);
// Until this has happened a loss of power may take a file that was begun or renamed there.
rocksdb::IOStatus SyncFolder(rocksdb::FileSystem& files, const std::string& dir);

}  // namespace paceline::engine
