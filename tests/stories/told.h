#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/log/keys.h"
#include "libs/log/record.h"
#include "paceline/v1/replication.pb.h"

// Records and frames in words.
namespace paceline::stories {

// How ids are called in a story.
struct Names {
  std::map<uint64_t, std::string> sessions;
  std::map<uint32_t, std::string> tables;
  std::map<uint32_t, std::string> jobs;
  std::string Of(SessionId id) const { return sessions.at(id.v); }
  std::string Of(TableId id) const { return tables.at(id.v); }
};

inline std::string Told(const Names& names, TableId table, table::KeyView keys, table::ValueView values,
                        const char* sign) {
  std::vector<std::string> rows;
  for (size_t i = 0; i < keys.size(); ++i) {
    rows.push_back(absl::StrCat(names.Of(table), "[", keys[i], "] ", sign, " ", values[i]));
  }
  return absl::StrJoin(rows, ", ");
}

inline std::string Told(const Names& names, const log::Update& part) {
  return absl::StrCat("part ", part.number, " of ", names.Of(part.session), ", clock ", part.clock, ": ",
                      Told(names, part.table, log::Keys(part.keys), log::Values(part.values), "+="));
}

struct RecordTeller {
  const Names& names;
  std::string operator()(const log::OpenTable& r) const { return "table " + r.table->name + " begins"; }
  std::string operator()(const log::OpenSession& r) const { return names.Of(r.session) + " is open"; }
  std::string operator()(const log::Join& r) const {
    return absl::StrCat(names.Of(r.session), " is a worker from clock ", r.start, " on");
  }
  std::string operator()(const log::Evict& r) const { return names.Of(r.session) + " is closed"; }
  std::string operator()(const log::Advance& r) const {
    return absl::StrCat("the min clock is ", r.min_clock);
  }
  std::string operator()(const log::Update& r) const { return Told(names, r); }
  std::string operator()(const log::Fold& r) const {
    std::string out = absl::StrCat("clock ", r.clock, " is folded");
    for (const log::FoldedRows& rows : r.tables) {
      absl::StrAppend(&out, ", ", Told(names, rows.table, rows.keys, rows.values, "+="));
    }
    for (const auto& [session, number] : r.numbers) {
      absl::StrAppend(&out, ", ", names.Of(session), " has part ", number);
    }
    return absl::StrCat(out, "; the min clock is ", r.clock + 1);
  }
  std::string operator()(const log::BeginEpoch& r) const {
    return absl::StrCat("epoch ", r.epoch.v, " begins");
  }
  std::string operator()(const log::Cut& r) const {
    return absl::StrCat("cut ", r.id, " at clock ", r.clock);
  }
  std::string operator()(const log::Load& r) const {
    return "loaded: " + Told(names, r.table, r.keys, r.rows, "=");
  }
  std::string operator()(const log::EndLoad& r) const {
    return absl::StrCat("all is loaded; the min clock is ", r.clock);
  }
  std::string operator()(const log::BeginChange& r) const {
    return absl::StrCat("change ", r.number, " begins; all up to ", r.floor, " are over");
  }
  template <class Other>
  std::string operator()(const Other&) const {
    return "a record that no story has yet";
  }
};

inline std::string Told(const v1::ReplicateRequest::Segment& frame) {
  if (frame.has_image())
    return absl::StrCat("the state as of record ", frame.image().lsn(), ", without its rows");
  if (frame.pages_size() > 0) return absl::StrCat("pages of rows: ", frame.pages_size());
  if (frame.image_complete()) return "there are no more pages";
  const std::string after = absl::StrCat("record ", frame.lsn(), " of epoch ", frame.lsn_epoch());
  if (frame.records() == 0) return "do you have " + after + "?";
  return absl::StrCat(frame.records(), frame.records() == 1 ? " record" : " records", " after ", after);
}

inline std::string Told(const v1::ReplicateReply::Ack& ack) {
  switch (ack.state()) {
    case v1::ReplicateReply::HOLDS:
      return ack.lsn() == 0 ? absl::StrCat("has that, with pages: ", ack.pages())
                            : absl::StrCat("holds all up to record ", ack.lsn());
    case v1::ReplicateReply::BEHIND:
      return absl::StrCat("has record ", ack.lsn(), " of epoch ", ack.lsn_epoch(), " and not that one");
    case v1::ReplicateReply::NO_STATE:
      return "has nothing";
    default:
      return absl::StrCat("refused: there is epoch ", ack.epoch());
  }
}

}  // namespace paceline::stories
