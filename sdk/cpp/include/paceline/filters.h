#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// Filters of the link: fewer bytes between this client and the shards, for more CPU on both sides. Each table
// has its own for what is pushed and for what is pulled, a member of Sparse and Ranged and an argument of
// Client::Open:
//
//   paceline::Sparse schema{.dim = 2};
//   schema.link_filters.push = {.key_lists = true, .compression = paceline::Compression::kLz4};
//   schema.link_filters.pull = {.key_lists = true};
//   auto weights = client->OpenOrCreate("weights", schema);
//
// They are not part of the stored schema: each client has its own.
//
// What arrives is what was sent, bit for bit, however often it is sent again; but a pull with a packing
// rounds (see Packing). The client and each shard agree on filters when they connect: with a shard of an
// earlier release everything goes as it is. docs/filters.md says what each costs and when to use it.
namespace paceline {

// In how many bits values travel.
//
// Pushed rows lose nothing: a row travels in fewer bits if each of its values can be told exactly in them,
// and as it is otherwise. So it pays for values that were rounded before, and for small whole numbers.
//
// Pulled rows are rounded by the shard, as the reader has asked for it: each value to the nearest one that is
// carried, ties to even; what is beyond the range becomes the largest finite value. Rows that the client's
// cache has kept are rounded too, and pushes of this client are added to them in full. Rows that a shard
// sends because they have changed (Ssp::refresh, Essp) are not rounded; nor are reductions.
enum class Packing {
  kF32,   // as they are
  kF16,   // IEEE 754 binary16: 11 significant bits, up to 65,504
  kBf16,  // the upper half of an f32: 8 significant bits, the range of an f32
  kInt8,  // −127 to 127 times one power of two a row, the smallest that its largest value fits
};

// Compression of keys and of values, a message at a time; what would not become smaller goes as it is.
enum class Compression {
  kNone,
  kLz4,
  kZstd,  // level 1: fewer bytes than LZ4, for several times its time
};

// For one direction of one table.
struct Filters {
  // A list of keys that was sent before is named instead of sent. Client and shard keep the lists that were
  // sent lately, up to 32 MiB for each stream (a shard may allow less when it has many clients). Of rows of
  // two values it saves half of the bytes if lists come again, as they do from the second pass over the same
  // batches on. Streams that begin after the first table with them was opened keep lists: open tables before
  // the first push and pull.
  bool key_lists = false;
  // Keys go as differences: a byte or two each if they are sorted and dense.
  bool delta_keys = false;
  Packing packing = Packing::kF32;
  Compression compression = Compression::kNone;
  friend bool operator==(const Filters&, const Filters&) = default;
};

// For a table: of its pushes, and of its pulls. Rows that a PushPull brings back are pulled.
struct LinkFilters {
  Filters push = {};
  Filters pull = {};
  friend bool operator==(const LinkFilters&, const LinkFilters&) = default;
};

// Filters from the text of an option: names separated by commas, out of keys, delta, f16, bf16, int8, lz4,
// zstd; `push:` or `pull:` before a name: in that direction alone. `keys,lz4,pull:f16`. Empty: none.
// INVALID_ARGUMENT names what is wrong.
absl::StatusOr<LinkFilters> ParseLinkFilters(absl::string_view text);

}  // namespace paceline
