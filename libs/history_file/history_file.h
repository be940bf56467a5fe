#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/history/event.h"

namespace paceline::history {

// Writes events to a file from a thread of its own, in the order of the calls of Record. Thread-safe.
//
// An event reaches the kernel at most kFlushEvery after Record, so the file of a killed process may lack that
// much. Memory is bounded: with kBufferBytesMax not written yet Record blocks on the disk, so no event is
// left out. Events that a full disk refuses are left out; a Gap takes their place once the disk accepts
// writes again.
//
// More than 15 members: a queue between two threads, and on its far side the file with what has gone wrong
// with it.
class HistoryFile final : public Sink {
 public:
  static constexpr absl::Duration kFlushEvery = absl::Milliseconds(5);
  static constexpr size_t kBlockBytes = size_t{64} << 10;  // a block of this size is written at once
  static constexpr size_t kBufferBytesMax = size_t{4} << 20;

  // Creates a new file: `path`, or, if that exists, the first of path.1, path.2 … that does not. So a program
  // that starts again, or several with one setting, keep separate histories. An error names the path.
  static absl::StatusOr<std::unique_ptr<HistoryFile>> Create(const std::string& path, Program program,
                                                             const std::string& name);
  // Writes the remaining events, and End.
  ~HistoryFile() override;

  void Record(const Event& event) override ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns when everything recorded before has reached the kernel, or was refused.
  void Flush() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string& path() const { return path_; }
  // The first error of the disk, or OK.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Replaces write(2), for tests of a full or slow disk: bytes written, or -1 and errno.
  using Write = std::function<ssize_t(int file, const char* data, size_t size)>;
  void WriteBy(Write write) ABSL_LOCKS_EXCLUDED(mutex_);
  // True while a caller of Record waits for the disk.
  bool HoldsUp() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  HistoryFile(int file, std::string path);
  void Run();
  // Writes a block of `events`, counting `count`.
  void WriteBlock(std::string_view events, uint64_t count);
  absl::Status WriteAll(std::string_view bytes);

  const int file_;
  const std::string path_;

  mutable Mutex mutex_;
  CondVar filled_;   // there is something to write
  CondVar emptied_;  // there is room again, or everything is written
  std::string buffer_ ABSL_GUARDED_BY(mutex_);
  uint64_t events_ ABSL_GUARDED_BY(mutex_) = 0;    // in buffer_
  uint64_t recorded_ ABSL_GUARDED_BY(mutex_) = 0;  // ever
  uint64_t written_ ABSL_GUARDED_BY(mutex_) = 0;   // of them, or refused by the disk
  int held_up_ ABSL_GUARDED_BY(mutex_) = 0;        // callers of Record that wait for room
  int flushing_ ABSL_GUARDED_BY(mutex_) = 0;       // callers of Flush that wait
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  Write write_ ABSL_GUARDED_BY(mutex_);

  // Of the writing thread.
  uint64_t blocks_ = 0;
  uint64_t end_ = 0;      // of the last whole block in the file
  uint64_t missing_ = 0;  // events that were refused since the last block
  std::string why_missing_;
  bool lost_ = false;  // the file cannot be written any more
  std::thread thread_;
};

}  // namespace paceline::history
