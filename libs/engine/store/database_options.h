#pragma once

#include <cstddef>

#include "rocksdb/options.h"

// How the engine's database is opened.
namespace paceline::engine {

// `create`: if there is none.
rocksdb::DBOptions DbOptions(rocksdb::Env* env, bool create);
// Of bases and pages. Until the contents are loaded nothing is compacted: that took a third of a core from
// the load.
rocksdb::ColumnFamilyOptions CompactedOptions(size_t write_buffer_bytes, bool loaded);
// Of the log, of which whole files are deleted instead.
rocksdb::ColumnFamilyOptions LogOptions(size_t write_buffer_bytes);

}  // namespace paceline::engine
