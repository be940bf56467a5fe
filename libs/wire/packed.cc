#include "libs/wire/packed.h"

#include "absl/strings/str_cat.h"
#include "libs/base/little_endian.h"
#include "libs/base/status.h"

namespace paceline::wire {
namespace {

// Gathers one entry's fields in order, and appends them at the end: there are many entries.
class Packer {
 public:
  explicit Packer(std::string& out) : out_(out) {}
  ~Packer() { out_.append(bytes_, size_); }
  Packer(const Packer&) = delete;
  Packer& U32(uint32_t v) {
    StoreU32(v, bytes_ + size_);
    size_ += sizeof(v);
    return *this;
  }
  Packer& U64(uint64_t v) {
    StoreU64(v, bytes_ + size_);
    size_ += sizeof(v);
    return *this;
  }

 private:
  std::string& out_;
  char bytes_[kCertificateBytes];  // the largest entry
  size_t size_ = 0;
};

class Unpacker {
 public:
  explicit Unpacker(const char* at) : at_(at) {}
  uint32_t U32() {
    const uint32_t v = LoadU32(at_);
    at_ += sizeof(v);
    return v;
  }
  uint64_t U64() {
    const uint64_t v = LoadU64(at_);
    at_ += sizeof(v);
    return v;
  }

 private:
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
  Packer(out)
      .U32(c.segment.v)
      .U32(c.served ? 1 : 0)
      .U64(c.epoch.v)
      .U64(c.began.v)
      .U64(c.version.v)
      .U64(c.min_clock)
      .U64(c.own);
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
