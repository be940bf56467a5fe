#include "libs/history_file/history_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/history/codec.h"
#include "libs/history/file_format.h"
#include "libs/world/wall_clock.h"

namespace paceline::history {
namespace {

// Opens a file under a name that does not exist yet.
absl::StatusOr<std::pair<int, std::string>> OpenNew(const std::string& path) {
  constexpr int kTries = 100'000;
  for (int i = 0; i < kTries; ++i) {
    std::string name = i == 0 ? path : absl::StrCat(path, ".", i);
    const int file = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file >= 0) return std::pair(file, std::move(name));
    if (errno != EEXIST) return absl::ErrnoToStatus(errno, absl::StrCat("record: cannot make ", name));
  }
  return absl::AlreadyExistsError(absl::StrCat("record: ", path, " and ", kTries, " more of its name exist"));
}

uint64_t UnixMicros() {
  return static_cast<uint64_t>(absl::ToUnixMicros(world::WallClock()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<HistoryFile>> HistoryFile::Create(const std::string& path, Program program,
                                                                 const std::string& name) {
  ABSL_ASSIGN_OR_RETURN(auto made, OpenNew(path));
  std::unique_ptr<HistoryFile> file(new HistoryFile(made.first, std::move(made.second)));
  if (absl::Status written = file->WriteAll(kMagic); !written.ok()) return written;
  file->Record(Start{.program = program, .name = name, .unix_micros = UnixMicros()});
  file->thread_ = std::thread([r = file.get()] { r->Run(); });
  return file;
}

HistoryFile::HistoryFile(int file, std::string path)
    : file_(file),
      path_(std::move(path)),
      write_([](int to, const char* data, size_t size) { return write(to, data, size); }) {}

HistoryFile::~HistoryFile() {
  if (thread_.joinable()) {
    Record(End{});
    {
      MutexLock lock(&mutex_);
      stopped_ = true;
      filled_.Signal();
    }
    thread_.join();
  }
  close(file_);
}

void HistoryFile::WriteBy(Write write) {
  MutexLock lock(&mutex_);
  write_ = std::move(write);
}

absl::Status HistoryFile::status() const {
  MutexLock lock(&mutex_);
  return status_;
}

bool HistoryFile::HoldsUp() const {
  MutexLock lock(&mutex_);
  return held_up_ > 0;
}

void HistoryFile::Record(const Event& event) {
  MutexLock lock(&mutex_);
  if (buffer_.size() >= kBufferBytesMax) {
    ++held_up_;
    emptied_.Await(&mutex_,
                   [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return buffer_.size() < kBufferBytesMax; });
    --held_up_;
  }
  const bool was_small = buffer_.size() < kBlockBytes;
  Append(event, buffer_);
  ++events_;
  ++recorded_;
  if (was_small && buffer_.size() >= kBlockBytes) filled_.Signal();
}

void HistoryFile::Flush() {
  MutexLock lock(&mutex_);
  const uint64_t upto = recorded_;
  ++flushing_;
  filled_.Signal();
  emptied_.Await(&mutex_, [this, upto]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return written_ >= upto; });
  --flushing_;
}

void HistoryFile::Run() {
  std::string taken;
  bool stopped = false;
  while (!stopped) {
    uint64_t count = 0;
    {
      MutexLock lock(&mutex_);
      // Wakes up for a full block, for waiting callers, and otherwise every kFlushEvery.
      filled_.AwaitFor(&mutex_, kFlushEvery, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return stopped_ || flushing_ > 0 || buffer_.size() >= kBlockBytes;
      });
      stopped = stopped_;
      taken.swap(buffer_);
      count = std::exchange(events_, 0);
      emptied_.SignalAll();
    }
    if (count > 0) WriteBlock(taken, count);
    taken.clear();
    MutexLock lock(&mutex_);
    written_ += count;
    emptied_.SignalAll();
  }
}

void HistoryFile::WriteBlock(std::string_view events, uint64_t count) {
  std::string with_gap;
  if (missing_ > 0) {
    Append(Gap{.events = missing_, .why = why_missing_}, with_gap);
    with_gap += events;
    events = with_gap;
  }
  std::string block;
  AppendBlock(blocks_ + 1, events, block);
  const absl::Status written = lost_ ? absl::DataLossError(why_missing_) : WriteAll(block);
  if (written.ok()) {
    ++blocks_;
    missing_ = 0;
    return;
  }
  missing_ += count;
  why_missing_ = std::string(written.message());
  MutexLock lock(&mutex_);
  if (status_.ok()) status_ = written;
}

// Removes a block that could not be written whole, so that the file has whole blocks only.
absl::Status HistoryFile::WriteAll(std::string_view bytes) {
  Write write;
  {
    MutexLock lock(&mutex_);
    write = write_;
  }
  for (std::string_view rest = bytes; !rest.empty();) {
    const ssize_t wrote = write(file_, rest.data(), rest.size());
    if (wrote >= 0) {
      rest.remove_prefix(static_cast<size_t>(wrote));
      continue;
    }
    if (errno == EINTR) continue;
    absl::Status status = absl::ErrnoToStatus(errno, absl::StrCat("record: cannot write ", path_));
    lost_ = ftruncate(file_, static_cast<off_t>(end_)) != 0 ||
            lseek(file_, static_cast<off_t>(end_), SEEK_SET) < 0;
    return status;
  }
  end_ += bytes.size();
  return absl::OkStatus();
}

}  // namespace paceline::history
