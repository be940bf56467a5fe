#include "libs/engine/store/database_options.h"

#include <rocksdb/table.h>

#include "libs/engine/store/rocksdb_common.h"

namespace paceline::engine {
namespace {

// RocksDB would flush by itself at this multiple of the size at which the engine flushes.
constexpr size_t kOwnFlushFirst = 4;
// Keeps the disk busy while more is copied, and not only during a sync.
constexpr uint64_t kWriteOutEvery = uint64_t{1} << 20;
constexpr int kFilesMax = 1 << 30;  // of the log: there is no compaction that would make them fewer

rocksdb::ColumnFamilyOptions FamilyOptions(size_t write_buffer_bytes) {
  rocksdb::ColumnFamilyOptions options;
  options.write_buffer_size = kOwnFlushFirst * write_buffer_bytes;
  options.compression = rocksdb::kNoCompression;  // floats
  return options;
}

}  // namespace

rocksdb::DBOptions DbOptions(rocksdb::Env* env, bool create) {
  rocksdb::DBOptions options;
  options.env = env;
  StopAtErrors(options);
  options.create_if_missing = create;
  options.create_missing_column_families = create;
  options.atomic_flush = true;
  options.bytes_per_sync = options.wal_bytes_per_sync = kWriteOutEvery;
  options.max_background_jobs = 2;
  options.avoid_flush_during_shutdown = true;  // the write-ahead log has it all
  return options;
}

rocksdb::ColumnFamilyOptions CompactedOptions(size_t write_buffer_bytes, bool loaded) {
  rocksdb::ColumnFamilyOptions options = FamilyOptions(write_buffer_bytes);
  options.disable_auto_compactions = !loaded;
  return options;
}

rocksdb::ColumnFamilyOptions LogOptions(size_t write_buffer_bytes) {
  rocksdb::ColumnFamilyOptions options = FamilyOptions(write_buffer_bytes);
  // A start reads all files as one ordered list. With any other index it would first read a group from each
  // of them, on one thread and into new memory: a second of the start of 4 GB.
  rocksdb::BlockBasedTableOptions table;
  table.index_type = rocksdb::BlockBasedTableOptions::kBinarySearchWithFirstKey;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.compaction_style = rocksdb::kCompactionStyleNone;
  options.disable_auto_compactions = true;
  options.level0_file_num_compaction_trigger = kFilesMax;
  options.level0_slowdown_writes_trigger = kFilesMax;
  options.level0_stop_writes_trigger = kFilesMax;
  return options;
}

}  // namespace paceline::engine
