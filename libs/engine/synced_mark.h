#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

// How far the files of a folder are known to be synced, kept outside of them. A log that ends early looks
// like one that power tore: only what lies beside it can tell that it had reached further. The bytes are in
// docs/formats.md. Pure: no files, no clock, no thread.
namespace paceline::engine {

struct SyncedMark {
  // The first `bytes` of the file are synced, and have this checksum.
  struct File {
    std::string name;
    uint64_t bytes = 0;
    uint32_t crc32c = 0;
    friend bool operator==(const File&, const File&) = default;
  };

  uint64_t count = 0;     // of marks that were written in this folder: the newer of two has more
  uint64_t position = 0;  // the last batch, or commit, that is synced
  bool current = false;   // the file CURRENT is there
  std::vector<File> files;
  friend bool operator==(const SyncedMark&, const SyncedMark&) = default;

  const File* Find(absl::string_view name) const;
};

// The file has two slots, which are written in turn, each synced before the other one is touched: whatever
// tears the one that is being written, the other is whole.
inline constexpr size_t kMarkSlotBytes = size_t{16} << 10;

// Fits in a slot. kResourceExhausted: it does not, so many files there are.
absl::StatusOr<std::string> EncodeMark(const SyncedMark& mark);

struct FoundMark {
  SyncedMark mark;
  int slot = 0;              // that has it
  bool other_empty = false;  // the other slot was never written
  bool other_whole = false;  // … has an older mark; neither: it was torn, or is damaged
};
// The newest of both slots. kDataLoss: neither has one.
absl::StatusOr<FoundMark> NewestMark(absl::string_view file);

// OK: each file has what the mark says. Otherwise kDataLoss names the first that has not. `read` returns of a
// file how many of its first `bytes` it has, and their checksum; kNotFound if there is no such file.
using ReadPrefix =
    absl::FunctionRef<absl::StatusOr<SyncedMark::File>(const std::string& name, uint64_t bytes)>;
absl::Status CheckFiles(const SyncedMark& mark, ReadPrefix read);

// What the next mark says, and when it is due: not with every sync, which would cost a second one. For one
// thread.
class MarkKeeper {
 public:
  static constexpr absl::Duration kEvery = absl::Milliseconds(100);
  static constexpr uint64_t kEveryBytes = uint64_t{4} << 20;

  // `last`: the one that is on the disk.
  explicit MarkKeeper(SyncedMark last);

  // So much of a file is synced: no less than before.
  void Synced(const SyncedMark::File& file, absl::Time now);
  void Reached(uint64_t position, absl::Time now);
  void HasCurrent(absl::Time now);
  // The file is going to be deleted or begun anew, which may be done once no mark on the disk has it. True:
  // one has it, or is being written with it.
  bool Forget(absl::string_view name, absl::Time now);

  // When the next one is due; infinite future: it would say what the last one says.
  absl::Time Due() const;
  // The next one, as of now. Then either of these, before another is taken: it is on the disk; or it could
  // not be written, and is due again.
  SyncedMark Take();
  void Written(SyncedMark mark) { last_ = std::move(mark); }
  void Failed(absl::Time now) { since_ = now; }

  // All that is known to be synced, count aside.
  const SyncedMark& next() const { return next_; }
  // The one that is on the disk.
  const SyncedMark& last() const { return last_; }

 private:
  SyncedMark last_;
  SyncedMark next_;
  uint64_t bytes_ahead_ = 0;                   // of files, beyond the mark that was taken last
  absl::Time since_ = absl::InfiniteFuture();  // the first change that it has not
};

}  // namespace paceline::engine
