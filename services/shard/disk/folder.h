#pragma once

#include "absl/status/statusor.h"
#include "libs/base/ids.h"
#include "libs/engine/engine.h"
#include "paceline/v1/coordinator.pb.h"

// The notes in a shard's data folder, beside its segments (docs/formats.md).
namespace paceline::shard {

// The shard that owns the disk. A disk is good for one shard of one cluster.
struct DiskOwner {
  uint64_t cluster = 0;  // 0: no owner yet
  ShardId shard;
  int ring_bits = 0;
  friend bool operator==(const DiskOwner&, const DiskOwner&) = default;
};

// Reads the owner; cluster 0 if there is none yet. DATA_LOSS: the note is damaged.
absl::StatusOr<DiskOwner> ReadOwner(const engine::Engine& engine);
// Reads the stamps of the last two starts, neither the owner nor the position. DATA_LOSS: a note is damaged.
absl::StatusOr<v1::DataFolder> ReadFolder(const engine::Engine& engine);
// Reads what the shard was told that no segment records: the map's version, the term, its incarnation.
absl::StatusOr<v1::Known> ReadKnown(const engine::Engine& engine);

// The same notes for a batch.
engine::Batch::PutNote NoteOf(const DiskOwner& owner);
engine::Batch::PutNote StampsNote(const v1::DataFolder& folder);
engine::Batch::PutNote KnownNote(const v1::Known& known);

// Removes the folder's owner, and drops every segment of a ring of 2^ring_bits.
engine::Batch Emptied(int ring_bits);

}  // namespace paceline::shard
