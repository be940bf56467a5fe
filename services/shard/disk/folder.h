#pragma once

#include "absl/status/statusor.h"
#include "libs/base/ids.h"
#include "libs/engine/engine.h"
#include "paceline/v1/coordinator.pb.h"

// What a shard's data folder says of itself beside its segments: notes of its engine (docs/formats.md).
namespace paceline::shard {

// Whose the disk is. A disk is good for one shard of one cluster.
struct DiskOwner {
  uint64_t cluster = 0;  // 0: nobody's yet
  ShardId shard;
  int ring_bits = 0;
  friend bool operator==(const DiskOwner&, const DiskOwner&) = default;
};

// Its owner; nobody, as long as nothing was written to it. DATA_LOSS: the note is damaged.
absl::StatusOr<DiskOwner> ReadOwner(const engine::Engine& engine);
// The stamps of its last two starts; not whose it is, nor how much was written to it. DATA_LOSS: a note is
// damaged.
absl::StatusOr<v1::DataFolder> ReadFolder(const engine::Engine& engine);
// What its shard was told that is in no segment: the map's version, the term, its own incarnation.
absl::StatusOr<v1::Known> ReadKnown(const engine::Engine& engine);

// As a batch says it.
engine::Batch::PutNote NoteOf(const DiskOwner& owner);
engine::Batch::PutNote StampsNote(const v1::DataFolder& folder);
engine::Batch::PutNote KnownNote(const v1::Known& known);

// Makes the folder nobody's: of no segment of a ring of 2^ring_bits anything is kept.
engine::Batch Emptied(int ring_bits);

}  // namespace paceline::shard
