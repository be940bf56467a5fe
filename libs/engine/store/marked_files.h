#pragma once

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <memory>
#include <string>

#include "libs/engine/store/mark_writer.h"

namespace paceline::engine {

// Files of `base` for a database whose mark `marks` keeps. Each sync of a write-ahead log or a MANIFEST is
// noted there. Three steps wait until the mark is on the disk: deleting a file that the mark names, beginning
// the next log (so that only the newest log may reach beyond its mark), and pointing CURRENT to another
// MANIFEST. `marks` must outlive the files.
std::unique_ptr<rocksdb::Env> WithMarks(std::shared_ptr<rocksdb::FileSystem> base, MarkWriter& marks);

// The file's name without its folder.
std::string NameOf(const std::string& path);
bool IsLog(const std::string& name);
bool IsManifest(const std::string& name);
// Before this returns OK a loss of power may take a file that was created or renamed in the folder.
rocksdb::IOStatus SyncFolder(rocksdb::FileSystem& files, const std::string& dir);

}  // namespace paceline::engine
