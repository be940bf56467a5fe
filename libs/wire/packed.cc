#include "libs/wire/packed.h"

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"

namespace paceline::wire {
namespace {

// Appends and reads one entry's fields in order.
class Packer {
 public:
  explicit Packer(std::string& out) : out_(out) {}
  Packer& U32(uint32_t v) { return Put(v, 4); }
  Packer& U64(uint64_t v) { return Put(v, 8); }

 private:
  Packer& Put(uint64_t v, int bytes) {
    for (int i = 0; i < bytes; ++i) out_.push_back(static_cast<char>(v >> (8 * i)));
    return *this;
  }
  std::string& out_;
};

class Unpacker {
 public:
  explicit Unpacker(const char* at) : at_(at) {}
  uint32_t U32() { return static_cast<uint32_t>(Take(4)); }
  uint64_t U64() { return Take(8); }

 private:
  uint64_t Take(int bytes) {
    uint64_t v = 0;
    for (int i = 0; i < bytes; ++i) v |= static_cast<uint64_t>(static_cast<uint8_t>(at_[i])) << (8 * i);
    at_ += bytes;
    return v;
  }
  const char* at_;
};

// Calls read(Unpacker, Entry&) → Status for every entry of `bytes`.
template <class Entry, class Read>
absl::StatusOr<std::vector<Entry>> ParseAll(absl::string_view bytes, size_t entry_bytes, const char* field,
                                            Read read) {
  if (bytes.size() % entry_bytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ": ", bytes.size(), " bytes; expected a whole number of ", entry_bytes, "-byte entries"));
  }
  std::vector<Entry> entries(bytes.size() / entry_bytes);
  for (size_t i = 0; i < entries.size(); ++i) {
    ABSL_RETURN_IF_ERROR(read(Unpacker(bytes.data() + i * entry_bytes), entries[i]));
  }
  return entries;
}

absl::Status ReadLine(uint32_t value, const char* field, Line& line) {
  if (value != 1 && value != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": line ", value, "; expected 1 (on arrival) or 2 (aggregated)"));
  }
  line = static_cast<Line>(value);
  return absl::OkStatus();
}

}  // namespace

void Append(const PartEntry& e, std::string& out) {
  Packer(out).U32(e.segment.v).U32(e.count).U64(e.epoch.v).U64(e.number);
}

void Append(const Seal& s, std::string& out) {
  Packer(out).U32(s.segment.v).U32(s.run).U32(static_cast<uint32_t>(s.line)).U32(0).U64(s.number);
}

void Append(const Mark& m, std::string& out) {
  Packer(out).U32(m.segment.v).U32(static_cast<uint32_t>(m.line)).U64(m.number);
}

void Append(const Certificate& c, std::string& out) {
  Packer(out).U32(c.segment.v).U32(c.served ? 1 : 0).U64(c.epoch.v).U64(c.began.v).U64(c.version.v);
  Packer(out).U64(c.min_clock).U64(c.own);
}

void Append(SegmentId segment, std::string& out) {
  Packer(out).U32(segment.v);
}

void Append(const Reading& r, std::string& out) {
  Packer(out).U32(r.segment.v).U32(static_cast<uint32_t>(r.kind)).U64(r.round).U64(r.wish);
}

void Append(const Round& r, std::string& out) {
  Packer(out).U32(r.segment.v).U32(r.rank_plus_one).U64(r.waits_for.v).U64(r.epoch.v).U64(r.number);
  Packer(out).U64(r.version.v).U64(r.seen).U64(r.beat);
}

absl::StatusOr<std::vector<PartEntry>> ParseParts(absl::string_view bytes) {
  return ParseAll<PartEntry>(bytes, kPartEntryBytes, "parts", [](Unpacker in, PartEntry& e) {
    e.segment = SegmentId(in.U32());
    e.count = in.U32();
    e.epoch = Epoch(in.U64());
    e.number = in.U64();
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<Seal>> ParseSeals(absl::string_view bytes) {
  uint64_t sealed = 0;  // bounded, since runs are expanded segment by segment
  return ParseAll<Seal>(bytes, kSealBytes, "seals", [&sealed](Unpacker in, Seal& s) {
    s.segment = SegmentId(in.U32());
    s.run = in.U32();
    const uint32_t line = in.U32();
    in.U32();
    s.number = in.U64();
    if (s.run == 0) return absl::InvalidArgumentError("seals: run 0; expected at least 1");
    sealed += s.run;
    if (sealed > kSealedMax) {
      return absl::InvalidArgumentError(absl::StrCat("seals: their runs cover more than ", kSealedMax,
                                                     " segments; name each segment of a line once"));
    }
    return ReadLine(line, "seals", s.line);
  });
}

absl::StatusOr<std::vector<Mark>> ParseMarks(absl::string_view bytes) {
  return ParseAll<Mark>(bytes, kMarkBytes, "committed", [](Unpacker in, Mark& m) {
    m.segment = SegmentId(in.U32());
    const uint32_t line = in.U32();
    m.number = in.U64();
    return ReadLine(line, "committed", m.line);
  });
}

absl::StatusOr<std::vector<Certificate>> ParseCertificates(absl::string_view bytes) {
  return ParseAll<Certificate>(bytes, kCertificateBytes, "certificates", [](Unpacker in, Certificate& c) {
    c.segment = SegmentId(in.U32());
    c.served = in.U32() == 1;
    c.epoch = Epoch(in.U64());
    c.began = Lsn(in.U64());
    c.version = Lsn(in.U64());
    c.min_clock = in.U64();
    c.own = in.U64();
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<SegmentId>> ParseSegments(absl::string_view bytes) {
  return ParseAll<SegmentId>(bytes, 4, "segments", [](Unpacker in, SegmentId& s) {
    s = SegmentId(in.U32());
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<Reading>> ParseReadings(absl::string_view bytes) {
  return ParseAll<Reading>(bytes, kReadingBytes, "reading", [](Unpacker in, Reading& r) {
    r.segment = SegmentId(in.U32());
    const uint32_t kind = in.U32();
    if (kind > static_cast<uint32_t>(Reading::Kind::kJoins)) {
      return absl::InvalidArgumentError(absl::StrCat("reading: kind ", kind, "; expected 0, 1 or 2"));
    }
    r.kind = static_cast<Reading::Kind>(kind);
    r.round = in.U64();
    r.wish = in.U64();
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<Round>> ParseRounds(absl::string_view bytes) {
  return ParseAll<Round>(bytes, kRoundBytes, "rounds", [](Unpacker in, Round& r) {
    r.segment = SegmentId(in.U32());
    r.rank_plus_one = in.U32();
    r.waits_for = SessionId(in.U64());
    r.epoch = Epoch(in.U64());
    r.number = in.U64();
    r.version = Lsn(in.U64());
    r.seen = in.U64();
    r.beat = in.U64();
    return absl::OkStatus();
  });
}

}  // namespace paceline::wire
