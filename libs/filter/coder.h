#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/time/time.h"
#include "libs/filter/filter.h"
#include "libs/filter/key_lists.h"
#include "libs/world/clock.h"

// The filters of one direction of one stream, in their order: key lists, deltas and packing, compression.
namespace paceline::filter {

// Is told what each filter did, whichever side it is on.
class Observer {
 public:
  virtual ~Observer() = default;
  // `plain` bytes on the side of the program, `coded` on that of the link, in so much time.
  virtual void Filtered(Filter filter, uint64_t plain, uint64_t coded, absl::Duration took) = 0;
};

// What a frame counts for where the bytes of a link are bounded: what it would have without filters, if that
// is more. Both sides count alike.
constexpr uint64_t Weight(uint64_t frame_bytes, uint64_t coded, uint64_t plain) {
  return frame_bytes + (plain > coded ? plain - coded : 0);
}

// Bytes of a stream's key lists at most, whatever the peer allows.
inline constexpr uint64_t kListBytesMax = uint64_t{32} << 20;

// Encodes the keys of a stream's frames. Each call is a frame that is sent, in that order.
class KeyEncoder {
 public:
  // Both must outlive it.
  KeyEncoder(const world::Clock& clock, Observer& observer) : clock_(clock), observer_(observer) {}

  // A new stream: no list is known. `list_bytes`: of lists that the peer keeps.
  void Begin(uint64_t list_bytes);
  // Replaces `keys` by their code, and returns what was applied of `wanted`. `stride`: words an entry, 1
  // or 2. `lasting`: as KeyListSender takes it.
  FilterSet Encode(FilterSet wanted, size_t stride, absl::Cord& keys, const LastingMemory& lasting = {});

 private:
  const world::Clock& clock_;
  Observer& observer_;
  KeyListSender lists_;
};

class KeyDecoder {
 public:
  KeyDecoder(const world::Clock& clock, Observer& observer) : clock_(clock), observer_(observer) {}

  void Begin(uint64_t list_bytes) { lists_ = KeyListReceiver(list_bytes); }
  // INVALID_ARGUMENT: the frame cannot be read, nor can later ones that name its keys. Whatever the bytes, it
  // takes `bytes_max` of memory at most, for each of its steps, beside the lists. Returns the notes of the
  // list that the keys are; null: they were sent.
  absl::StatusOr<std::shared_ptr<ListNotes>> Decode(FilterSet applied, size_t stride, size_t bytes_max,
                                                    absl::Cord& keys);

 private:
  const world::Clock& clock_;
  Observer& observer_;
  KeyListReceiver lists_;
};

// The same for values, of which streams know nothing.
FilterSet EncodeValues(FilterSet wanted, uint32_t dim, absl::Cord& values, const world::Clock& clock,
                       Observer& observer);
absl::Status DecodeValues(FilterSet applied, size_t bytes_max, absl::Cord& values, const world::Clock& clock,
                          Observer& observer);

}  // namespace paceline::filter
