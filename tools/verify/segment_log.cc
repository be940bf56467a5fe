// Which records of a segment there were, and which of them survived.
#include "tools/verify/segment_log.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace paceline::verify {
namespace {

std::string Position(Epoch epoch, Lsn lsn) {
  return absl::StrCat("record ", lsn.v, " of epoch ", epoch.v);
}

}  // namespace

std::string SegmentLog::Name() const {
  return absl::StrCat("segment ", segment_.v);
}

void SegmentLog::Violate(std::string_view rule, Place place, std::string why) {
  findings_.Violate({rule.data(), rule.size()}, place, absl::StrCat(Name(), ": ", why));
}

void SegmentLog::Add(const history::Logged& event, Epoch before, Place place) {
  Entry entry{.lsn = event.lsn,
              .epoch = event.epoch,
              .before = before,
              .place = place,
              .kind = event.kind,
              .hash = event.hash,
              .job = event.job,
              .min_clock = event.min_clock,
              .session = event.session,
              .line = event.line,
              .number = event.number,
              .count = event.count,
              .content = event.content};
  if (event.kind == history::RecordKind::kFold) {
    entry.numbers = static_cast<uint32_t>(numbers_.size());
    numbers_.push_back(event.numbers);
  }
  if (event.kind == history::RecordKind::kBeginEpoch && event.lsn > Lsn()) {
    AddBegan(event.epoch, Lsn(event.lsn.v - 1), place);
  }
  epochs_.try_emplace(event.epoch);
  entries_.push_back(entry);
}

void SegmentLog::AddPrimary(Epoch epoch, ring::Member member, Place place) {
  EpochInfo& info = epochs_[epoch];
  if (!info.primary.has_value()) {
    info.primary = member;
    info.primary_at = place;
    ++findings_.report.epochs;
    return;
  }
  if (*info.primary == member) return;
  Violate("OnePrimary", place,
          absl::StrCat("epoch ", epoch.v, " has two primaries: ", ring::ToString(*info.primary), ", by ",
                       findings_.NameOf(info.primary_at.file), ", byte ", info.primary_at.offset, ", and ",
                       ring::ToString(member)));
}

void SegmentLog::AddBegan(Epoch epoch, Lsn began, Place place) {
  EpochInfo& info = epochs_[epoch];
  if (!info.began.has_value()) {
    info.began = began;
    info.began_at = place;
    return;
  }
  if (*info.began == began) return;
  Violate(
      "OnePrimary", place,
      absl::StrCat("epoch ", epoch.v, " began at ", began.v, "; by ", findings_.NameOf(info.began_at.file),
                   ", byte ", info.began_at.offset, ", it began at ", info.began->v));
}

bool SegmentLog::Survives(Epoch epoch, Lsn lsn) const {
  for (auto it = epochs_.upper_bound(epoch); it != epochs_.end(); ++it) {
    if (it->second.began.has_value() && lsn > *it->second.began) return false;
  }
  return true;
}

// Equal positions, equal records, and equal records before them: by induction the logs up to there are equal.
void SegmentLog::CheckMatching() {
  const auto position = [](const Entry& e) {
    return std::tuple(e.lsn, e.epoch, e.place.file, e.place.offset);
  };
  std::sort(entries_.begin(), entries_.end(),
            [&](const Entry& a, const Entry& b) { return position(a) < position(b); });
  for (size_t i = 1; i < entries_.size(); ++i) {
    const Entry& one = entries_[i - 1];
    const Entry& two = entries_[i];
    if (one.lsn != two.lsn || one.epoch != two.epoch) continue;
    const bool known = one.before != Epoch() && two.before != Epoch();
    if (one.hash == two.hash && one.kind == two.kind && (!known || one.before == two.before)) continue;
    Violate("LogMatching", two.place,
            absl::StrCat(Position(two.epoch, two.lsn), " is not the one of ",
                         findings_.NameOf(one.place.file), ", byte ", one.place.offset));
  }
}

void SegmentLog::FindSurvivors() {
  for (auto it = epochs_.begin(); it != epochs_.end(); ++it) {
    if (it->second.began.has_value() || it == epochs_.begin()) continue;
    decided_ = false;
    findings_.Miss(absl::StrCat(Name(), ": where its epoch ", it->first.v,
                                " began is in no file, so it is not known which records before it survived"));
  }
  if (!decided_) return;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    const EpochInfo& info = epochs_.at(entry.epoch);
    if (info.began.has_value() && entry.lsn <= *info.began) {
      Violate(
          "LogMatching", entry.place,
          absl::StrCat(Position(entry.epoch, entry.lsn), " lies before the beginning of its epoch, which ",
                       "is after record ", info.began->v));
    }
    if (i > 0 && entries_[i - 1].lsn == entry.lsn && entries_[i - 1].epoch == entry.epoch) continue;
    if (Survives(entry.epoch, entry.lsn)) {
      survivors_.push_back(i);
    } else if (entry.kind == history::RecordKind::kUpdate) {
      ++findings_.report.parts_void;
    }
  }
  const Epoch last = epochs_.rbegin()->first;
  open_end_ = std::find(open_ends_.begin(), open_ends_.end(), last) != open_ends_.end() ||
              !epochs_.rbegin()->second.primary.has_value();
}

void SegmentLog::CheckHole(const Entry& entry) {
  if (entry.lsn.v == last_.v + 1) return;
  if (entry.lsn == last_) {
    return Violate(
        "LogMatching", entry.place,
        absl::StrCat("two records have LSN ", entry.lsn.v, " and outlived every change of primary"));
  }
  ++holes_;
  findings_.Miss(absl::StrCat(Name(), ": records ", last_.v + 1, " to ", entry.lsn.v - 1, " are in no file"));
}

void SegmentLog::Check(const ClientOf& clients) {
  if (entries_.empty()) {
    open_end_ = true;
    return;
  }
  ++findings_.report.segments;
  CheckMatching();
  FindSurvivors();
  for (size_t i : survivors_) {
    CheckHole(entries_[i]);
    Take(entries_[i], clients);
    last_ = entries_[i].lsn;
    if (holes_ == 0) known_ = last_;
  }
}

}  // namespace paceline::verify
