#include "services/shard/disk/folder.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/little_endian.h"
#include "libs/base/status.h"
#include "libs/ring/placement.h"

namespace paceline::shard {
namespace {

constexpr char kOwnerNote[] = "owner";
constexpr size_t kOwnerBytes = 16;  // cluster, shard, bits of the ring
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

absl::StatusOr<DiskOwner> ReadOwner(const engine::Engine& engine) {
  const absl::StatusOr<std::string> note = engine.Note(kOwnerNote);
  if (absl::IsNotFound(note.status())) return DiskOwner();
  ABSL_RETURN_IF_ERROR(note.status());
  if (note->size() != kOwnerBytes) {
    return absl::DataLossError(
        absl::StrCat("disk: the owner's note has ", note->size(), " bytes; expected ", kOwnerBytes));
  }
  const uint32_t ring_bits = LoadU32(&(*note)[12]);
  if (ring_bits > ring::kRingBitsMax) {
    return absl::DataLossError(absl::StrCat("disk: the owner's note says a ring of 2^", ring_bits,
                                            " segments; expected at most 2^", ring::kRingBitsMax));
  }
  return DiskOwner{.cluster = LoadU64(note->data()),
                   .shard = ShardId(LoadU32(&(*note)[8])),
                   .ring_bits = static_cast<int>(ring_bits)};
}

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
  return absl::DataLossError("disk: the note of known numbers is not a valid Known message");
}

engine::Batch::PutNote NoteOf(const DiskOwner& owner) {
  std::string bytes(kOwnerBytes, '\0');
  StoreU64(owner.cluster, bytes.data());
  StoreU32(owner.shard.v, &bytes[8]);
  StoreU32(static_cast<uint32_t>(owner.ring_bits), &bytes[12]);
  return {.name = kOwnerNote, .bytes = std::move(bytes)};
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
