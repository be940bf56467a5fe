#pragma once

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/engine/store/mark_writer.h"

namespace paceline::engine {

// The file that has the mark, in the folder of its database.
inline constexpr char kMarkFile[] = "SYNCED";

// A folder with a RocksDB database, and how far it is known to be synced. RocksDB takes a write-ahead log
// that ends early for one that a loss of power tore, and a folder without CURRENT for an empty one. Therefore
// call Check before opening the database: it says whether everything that had been synced is there. Data
// beyond the mark may be torn, and RocksDB cuts it off.
//
// The mark lags behind the synced data by MarkKeeper::kEvery or kEveryBytes, and the time to write it. It is
// complete once this object is destroyed.
class MarkedFolder {
 public:
  struct Words {
    std::string whose;   // messages begin with it: "disk" or "store"
    std::string remedy;  // what to do about damage, as a sentence
  };
  // The format that a database without a mark says it has; 0: none yet.
  using ReadFormat = absl::FunctionRef<absl::StatusOr<uint64_t>(rocksdb::Env* env)>;

  // The caller holds the FolderLock of `dir`. A folder that is new, or of a format before `format`, gets a
  // mark.
  //
  //   kDataLoss      the mark, or what it says, is damaged or missing: the message names the file
  //   kUnavailable   the folder cannot be read or written
  static absl::StatusOr<std::unique_ptr<MarkedFolder>> Open(std::shared_ptr<rocksdb::FileSystem> files,
                                                            std::string dir, Words words, uint64_t format,
                                                            ReadFormat read_format);

  // The database's files. Close every database that uses them before this object is destroyed.
  rocksdb::Env* env() { return env_.get(); }

  // Call before each opening of the database.
  absl::Status Check() const;
  // Call after the first opening: the database has everything up to `position`. kDataLoss if the mark had
  // more.
  absl::Status CheckPosition(uint64_t position) const;
  // Translates an error of opening or reading the database, and names the damaged file if there is one.
  // RocksDB often names the MANIFEST for a fault of another file.
  absl::Status Named(absl::Status status) const;
  // `position`, a number that only grows, is synced. An error: the mark cannot be written.
  absl::Status Reached(uint64_t position);

 private:
  MarkedFolder(std::shared_ptr<rocksdb::FileSystem> files, std::string dir, Words words);

  absl::Status Start(uint64_t format, ReadFormat read_format);
  absl::Status MayHaveNone(uint64_t format, ReadFormat read_format) const;
  absl::StatusOr<FoundMark> Create() const;
  absl::StatusOr<FoundMark> Read() const;
  absl::Status CheckCurrent(const SyncedMark& mark) const;
  absl::StatusOr<SyncedMark::File> Prefix(const std::string& name, uint64_t bytes) const;
  // The damaged tables, and why; empty: none.
  std::string DamagedTables() const;
  std::string Path(absl::string_view name) const;
  bool Has(absl::string_view name) const;
  absl::Status Refused(absl::string_view why) const;
  absl::Status DiskStatus(const rocksdb::Status& status, absl::string_view what) const;

  const std::shared_ptr<rocksdb::FileSystem> files_;
  const std::string dir_;
  const Words words_;
  uint64_t position_ = 0;  // of the mark that was found
  bool half_ = false;      // one of the two marks that were found is torn, or damaged
  std::unique_ptr<MarkWriter> marks_;
  std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace paceline::engine
