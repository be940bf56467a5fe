#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/base/ids.h"

// The packed layouts inside the `bytes` fields of shard.proto. Little-endian, no padding beyond the
// documented; docs/wire.md is the reference and has test vectors. Parsing is safe for hostile bytes:
// INVALID_ARGUMENT names the field whose length is not a whole number of entries.
namespace paceline::wire {

// One part: the share of a push or pull that belongs to one segment. 24 bytes.
struct PartEntry {
  SegmentId segment;
  uint32_t count = 0;  // entries of the frame's keys that belong to the part
  Epoch epoch;         // the segment's epoch in the sender's map
  PartNumber number = 0;
  friend bool operator==(const PartEntry&, const PartEntry&) = default;
};

// `run` segments from `segment` on are sealed at `number` on `line`. 24 bytes.
struct Seal {
  SegmentId segment;
  uint32_t run = 1;
  Line line = Line::kArrival;
  PartNumber number = 0;
  friend bool operator==(const Seal&, const Seal&) = default;
};

// Parts up to `number` are committed. 16 bytes.
struct Mark {
  SegmentId segment;
  Line line = Line::kArrival;
  PartNumber number = 0;
  friend bool operator==(const Mark&, const Mark&) = default;
};

// Describes the values of one part of a pull: their version and clock. 48 bytes.
struct Certificate {
  SegmentId segment;
  bool served = false;  // false: refused; the reply's refusals say why, and it has no values
  Epoch epoch;
  Lsn began;            // where that epoch began
  Lsn version;          // the values hold exactly the records up to here
  Clock min_clock = 0;  // every update of smaller clocks, of every worker, is in them
  PartNumber own = 0;   // the reader's own parts of the arrival line that are in them
  friend bool operator==(const Certificate&, const Certificate&) = default;
};

// In place of a number of changed rows: there are more than were asked for, or the shard does not know them.
inline constexpr uint32_t kChangesUnknown = UINT32_MAX;

// What a client says of a segment with tables under a value bound. 24 bytes.
struct Reading {
  enum class Kind : uint32_t {
    kNot = 0,    // it reads there no more, or never did
    kReads = 1,  // it hands out no value that is older than `round`
    kJoins = 2,  // it begins to read
  };
  SegmentId segment = {};
  Kind kind = Kind::kNot;
  uint64_t round = 0;
  PartNumber wish = 0;  // tell it when its parts up to this one were seen by all; 0: it does not ask
  friend bool operator==(const Reading&, const Reading&) = default;
};

// Where the rounds of such a segment are, for one client. 56 bytes.
struct Round {
  SegmentId segment = {};
  uint32_t rank_plus_one = 0;  // of the reader that the present round waits for; 0: none, or it is no worker
  SessionId waits_for = {};    // its session; 0: none
  Epoch epoch = {};
  uint64_t number = 0;  // 0: the client does not count as a reader
  Lsn version = {};     // of the round: a reader that confirms it hands out nothing older
  PartNumber seen = 0;  // the client's parts up to this one were seen by all
  uint64_t beat = 0;    // of the message that this answers; 0: none, or the client has a round to confirm
  friend bool operator==(const Round&, const Round&) = default;
};

// The most segments and lines that the seals of one tick cover: those of the largest ring.
inline constexpr uint64_t kSealedMax = 2 * (uint64_t{1} << 16);

inline constexpr size_t kPartEntryBytes = 24;
// The most parts of one frame of pushes, on a ring of so many segments; whatever the ring, not fewer than the
// least.
inline constexpr size_t kFramePartsLeast = 1024;
inline size_t FramePartsMax(uint32_t segments) {
  return segments > kFramePartsLeast ? segments : kFramePartsLeast;
}
inline constexpr size_t kSealBytes = 24;
inline constexpr size_t kMarkBytes = 16;
inline constexpr size_t kCertificateBytes = 48;
inline constexpr size_t kReadingBytes = 24;
inline constexpr size_t kRoundBytes = 56;

void Append(const PartEntry& entry, std::string& out);
void Append(const Seal& seal, std::string& out);
void Append(const Mark& mark, std::string& out);
void Append(const Certificate& certificate, std::string& out);
void Append(SegmentId segment, std::string& out);  // 4 bytes
void Append(const Reading& reading, std::string& out);
void Append(const Round& round, std::string& out);

absl::StatusOr<std::vector<PartEntry>> ParseParts(absl::string_view bytes);
absl::StatusOr<std::vector<Seal>> ParseSeals(
    absl::string_view bytes);  // also refuses an unknown line, a run of 0, more than kSealedMax
absl::StatusOr<std::vector<Mark>> ParseMarks(absl::string_view bytes);  // also refuses an unknown line
absl::StatusOr<std::vector<Certificate>> ParseCertificates(absl::string_view bytes);
absl::StatusOr<std::vector<SegmentId>> ParseSegments(absl::string_view bytes);
absl::StatusOr<std::vector<Reading>> ParseReadings(absl::string_view bytes);  // also refuses an unknown kind
absl::StatusOr<std::vector<Round>> ParseRounds(absl::string_view bytes);

}  // namespace paceline::wire
