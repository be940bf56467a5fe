// Loaded into a process before everything else (LD_PRELOAD): writes down how much of each file has been
// synced, so that the test can take away the rest after it kills the process, as a loss of power would
// (power_loss.h). The killed one's page cache would survive it. The ledger named by PACELINE_SYNCED_LEDGER
// gets a line "INODE BYTES" for each file that is new, and for each that was synced; by inode, since files
// are renamed.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace {

template <class Function>
Function Real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

using Open = int (*)(const char*, int, ...);
using Sync = int (*)(int);

int Ledger() {
  static const int ledger = [] {
    const char* path = std::getenv("PACELINE_SYNCED_LEDGER");
    return path == nullptr ? -1 : Real<Open>("open")(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  }();
  return ledger;
}

// One write, so that lines of several threads do not mix and a killed process leaves whole ones.
void Note(const struct stat& file, off_t bytes) {
  char line[64];
  const int length =
      std::snprintf(line, sizeof(line), "%llu %llu\n", static_cast<unsigned long long>(file.st_ino),
                    static_cast<unsigned long long>(bytes));
  if (Ledger() >= 0 && write(Ledger(), line, static_cast<size_t>(length)) != length) std::abort();
}

// A sync may miss bytes that are appended meanwhile: only the size before it counts.
int Synced(int fd, Sync sync) {
  struct stat file;
  const bool regular = fstat(fd, &file) == 0 && S_ISREG(file.st_mode);
  const int result = sync(fd);
  if (result == 0 && regular) Note(file, file.st_size);
  return result;
}

// An inode may have been another file's.
int Opened(int fd) {
  struct stat file;
  if (fd >= 0 && fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_size == 0) Note(file, 0);
  return fd;
}

}  // namespace

extern "C" {

int fsync(int fd) {
  static const Sync real = Real<Sync>("fsync");
  return Synced(fd, real);
}

int fdatasync(int fd) {
  static const Sync real = Real<Sync>("fdatasync");
  return Synced(fd, real);
}

int open(const char* path, int flags, ...) {
  static const Open real = Real<Open>("open");
  if ((flags & O_CREAT) == 0) return real(path, flags);
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = va_arg(arguments, mode_t);
  va_end(arguments);
  return Opened(real(path, flags, mode));
}

// The same where files may be large anyway.
int open64(const char* path, int flags, ...) __attribute__((alias("open")));

}  // extern "C"
