#include "services/shard/disk/folder.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/little_endian.h"
#include "libs/base/status.h"
#include "services/shard/disk/disk_contents.h"

namespace paceline::shard {
namespace {

constexpr char kStampsNote[] = "stamps";
constexpr char kKnownNote[] = "known";
constexpr size_t kStampBytes = 16;  // count, random

v1::Stamp StampAt(const char* bytes) {
  v1::Stamp stamp;
  stamp.set_count(LoadU64(bytes));
  stamp.set_random(LoadU64(bytes + 8));
  return stamp;
}

void Store(const v1::Stamp& stamp, char* bytes) {
  StoreU64(stamp.count(), bytes);
  StoreU64(stamp.random(), bytes + 8);
}

}  // namespace

absl::StatusOr<v1::DataFolder> ReadFolder(const engine::Engine& engine) {
  v1::DataFolder folder;
  const absl::StatusOr<std::string> note = engine.Note(kStampsNote);
  if (absl::IsNotFound(note.status())) return folder;
  ABSL_RETURN_IF_ERROR(note.status());
  if (note->size() != 2 * kStampBytes) {
    return absl::DataLossError(
        absl::StrCat("disk: the note of stamps has ", note->size(), " bytes; expected ", 2 * kStampBytes));
  }
  *folder.mutable_previous() = StampAt(note->data());
  *folder.mutable_newest() = StampAt(note->data() + kStampBytes);
  return folder;
}

absl::StatusOr<v1::Known> ReadKnown(const engine::Engine& engine) {
  v1::Known known;
  const absl::StatusOr<std::string> note = engine.Note(kKnownNote);
  if (absl::IsNotFound(note.status())) return known;
  ABSL_RETURN_IF_ERROR(note.status());
  if (known.ParseFromString(*note)) return known;
  return absl::DataLossError("disk: the note of what is known is no Known");
}

engine::Batch::PutNote StampsNote(const v1::DataFolder& folder) {
  std::string bytes(2 * kStampBytes, '\0');
  Store(folder.previous(), bytes.data());
  Store(folder.newest(), &bytes[kStampBytes]);
  return {.name = kStampsNote, .bytes = std::move(bytes)};
}

engine::Batch::PutNote KnownNote(const v1::Known& known) {
  return {.name = kKnownNote, .bytes = known.SerializeAsString()};
}

engine::Batch Emptied(int ring_bits) {
  engine::Batch batch;
  batch.Add(NoteOf(DiskOwner()));
  batch.Add(StampsNote({}));
  batch.Add(KnownNote({}));
  for (uint32_t s = 0; s < uint32_t{1} << ring_bits; ++s) batch.Add(engine::Batch::Reset{SegmentId(s)});
  return batch;
}

}  // namespace paceline::shard
