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

// How far the files of a folder are known to be synced, kept outside of those files. A log that lost its end
// looks like one that a loss of power tore: only a note beside it can tell that it had reached further. The
// bytes are in docs/formats.md. Pure: no files, no clock, no thread.
namespace paceline::engine {

struct SyncedMark {
  // The first `bytes` of the file are synced, and have this checksum.
  struct File {
    std::string name;
    uint64_t bytes = 0;
    uint32_t crc32c = 0;
    friend bool operator==(const File&, const File&) = default;
  };

  uint64_t count = 0;     // of marks ever written in this folder: the newer of two has more
  uint64_t position = 0;  // the last batch, or commit, that is synced
  bool current = false;   // the file CURRENT is there
  std::vector<File> files;
  friend bool operator==(const SyncedMark&, const SyncedMark&) = default;

  const File* Find(absl::string_view name) const;
};

// The mark file has two slots. They are written in turn, and each is synced before the other is touched: if a
// write tears one slot, the other is whole.
inline constexpr size_t kMarkSlotBytes = size_t{16} << 10;

// Fits in a slot. kResourceExhausted: there are too many files for one.
absl::StatusOr<std::string> EncodeMark(const SyncedMark& mark);

struct FoundMark {
  SyncedMark mark;
  int slot = 0;              // that has it
  bool other_empty = false;  // the other slot was never written
  bool other_whole = false;  // … has an older mark; neither: it was torn, or is damaged
};
// The newer mark of the two slots. kDataLoss: neither slot holds one.
absl::StatusOr<FoundMark> NewestMark(absl::string_view file);

// OK: each file is as the mark says. Otherwise kDataLoss names the first that is not. `read` returns how many
// of the file's first `bytes` bytes exist, and their checksum; kNotFound if there is no such file.
using ReadPrefix =
    absl::FunctionRef<absl::StatusOr<SyncedMark::File>(const std::string& name, uint64_t bytes)>;
absl::Status CheckFiles(const SyncedMark& mark, ReadPrefix read);

// Content and due time of the next mark. A mark is not written at every sync, since that would cost a second
// sync each. For one thread.
class MarkKeeper {
 public:
  static constexpr absl::Duration kEvery = absl::Milliseconds(100);
  static constexpr uint64_t kEveryBytes = uint64_t{4} << 20;

  // `last`: the one that is on the disk.
  explicit MarkKeeper(SyncedMark last);

  // The first `file.bytes` bytes of the file are synced; never fewer than before.
  void Synced(const SyncedMark::File& file, absl::Time now);
  void Reached(uint64_t position, absl::Time now);
  void HasCurrent(absl::Time now);
  // The file is about to be deleted or begun anew, which must wait until no mark on the disk names it. True:
  // a mark does name it, or is being written with it.
  bool Forget(absl::string_view name, absl::Time now);

  // When the next mark is due; infinite future: it would equal the last one.
  absl::Time Due() const;
  // Takes the next mark, as of now. Then call one of the two below before Take again: Written, it is on the
  // disk; or Failed, it could not be written and is due again.
  SyncedMark Take();
  void Written(SyncedMark mark) { last_ = std::move(mark); }
  void Failed(absl::Time now) { since_ = now; }

  // All that is known to be synced. Its count is not maintained.
  const SyncedMark& next() const { return next_; }
  // The one that is on the disk.
  const SyncedMark& last() const { return last_; }

 private:
  SyncedMark last_;
  SyncedMark next_;
  uint64_t bytes_ahead_ = 0;                   // synced since the mark that was taken last
  absl::Time since_ = absl::InfiniteFuture();  // of the first change since the last mark
};

}  // namespace paceline::engine
