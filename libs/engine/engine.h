#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "libs/base/ids.h"

// The interface to a shard's disk; it knows no database. Of each segment a disk holds a *base* (everything
// but the rows, as of one LSN), *pages* (rows, each page as of an LSN of its own) and the *log* from the base
// on. The writer alone interprets their bytes (services/shard/disk/segment_disk.h).
namespace paceline::engine {

// Where a page lies: libs/table/page.h.
struct PageKey {
  TableId table;
  uint64_t start = 0;
  uint32_t depth = 0;
  friend auto operator<=>(const PageKey&, const PageKey&) = default;
};

// A record of a segment's log, as bytes.
struct LogEntry {
  SegmentId segment;
  Epoch epoch;  // in which it was written
  Lsn lsn;
  absl::Cord record;
};

// Changes that take effect together, in their order. Plain value.
class Batch {
 public:
  // Deletes everything of the segment, base, pages and log: it begins anew.
  struct Reset {
    SegmentId segment;
  };
  // Replaces the base. Records up to `lsn` are no longer needed; the log is cut there.
  struct PutBase {
    SegmentId segment;
    Lsn lsn;
    std::string bytes;
  };
  struct PutPage {
    SegmentId segment;
    PageKey key;
    std::string bytes;
  };
  struct DeletePage {
    SegmentId segment;
    PageKey key;
  };
  // A small fact about the whole shard.
  struct PutNote {
    std::string name;
    std::string bytes;
  };
  using Operation = std::variant<Reset, LogEntry, PutBase, PutPage, DeletePage, PutNote>;

  void Add(Operation operation);
  // Appends the operations of `other`.
  void Add(Batch other);
  const std::vector<Operation>& operations() const { return operations_; }
  bool empty() const { return operations_.empty(); }
  // Approximate bytes of the content.
  size_t bytes() const { return bytes_; }

 private:
  std::vector<Operation> operations_;
  size_t bytes_ = 0;
};

// Receives the content of an engine. An error ends the loading and becomes its result.
class Reader {
 public:
  virtual ~Reader() = default;
  virtual absl::Status OnBase(SegmentId segment, Lsn lsn, absl::string_view bytes) = 0;
  virtual absl::Status OnPage(SegmentId segment, const PageKey& key, absl::string_view bytes) = 0;
  virtual absl::Status OnRecord(LogEntry entry) = 0;
};

// Bytes on disk, for people and for tests of bounds.
struct Usage {
  uint64_t log = 0;          // the log's files
  uint64_t pages = 0;        // those of bases and pages
  uint64_t write_ahead = 0;  // written, but in no such file yet
};

// Keeps segments on a disk. Every implementation passes engine_contract_test.cc.
//
// Batches take effect in the order of Write, each whole or not at all. After the process was killed all
// batches that were written are there. After power failed, all batches up to the last Sync that returned OK
// are there, and of the later ones a prefix: no batch is there without those before it. So data that refers
// to earlier batches, as a page refers to the log up to its version, is never ahead of them.
//
// A segment's log has no gaps: each record's LSN is one more than that of the record before, or than that of
// the base if there is none. The first record after a Reset may have any.
//
// Calls must not overlap; they block on the disk. All of them may fail with:
//   kInvalidArgument     a gap in a log, or a base outside of it; nothing was written
//   kResourceExhausted   the disk is full; nothing was written. The same batch may be tried again
//   kUnavailable         the disk cannot be written or read now; as above
//   kDataLoss            the bytes read differ from those written; do not repeat
//   kFailedPrecondition  Write before Load
class Engine {
 public:
  virtual ~Engine() = default;

  // Reads everything: first the bases and pages, then the records, those of a segment by ascending LSN. Call
  // it once, before the first Write.
  virtual absl::Status Load(Reader& reader) = 0;
  // The same in less time, if the engine can: so many threads at once read pages, and call the reader. It
  // gets all pages of a segment from one of them, and bases and records, before and after, from the caller's.
  virtual absl::Status LoadInParallel(Reader& reader, int /*threads*/) { return Load(reader); }

  // Makes all of `batch` take effect, or none of it.
  virtual absl::Status Write(const Batch& batch) = 0;
  // Returns OK once everything written is safe from a loss of power. Costs one write barrier of the disk.
  virtual absl::Status Sync() = 0;

  // The bytes that PutNote wrote last under this name; kNotFound if it never did.
  virtual absl::StatusOr<std::string> Note(absl::string_view name) const = 0;
  virtual absl::StatusOr<Usage> usage() const = 0;
  // Memory held, approximately, for people.
  virtual uint64_t memory_bytes() const { return 0; }
  // The number of batches ever written to the disk. Numbers of batches that a loss of power took are used
  // again.
  virtual uint64_t position() const { return 0; }
};

}  // namespace paceline::engine
