#include "tools/verify/client_history.h"

#include <algorithm>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace paceline::verify {
namespace {

std::string VersionOf(SegmentId segment, Epoch epoch, Lsn version) {
  return absl::StrCat("segment ", segment.v, ", epoch ", epoch.v, ", version ", version.v);
}

}  // namespace

void ClientHistory::Take(uint64_t offset, const history::Event& event) {
  offset_ = offset;
  std::visit([this](const auto& e) { On(e); }, event);
}

void ClientHistory::On(const history::SessionOpened& event) {
  job_ = event.job;
  session_ = event.session;
  worker_ = event.worker;
  clock_ = event.start;
}

void ClientHistory::On(const history::Pushed& event) {
  PushedLine& line = lines_[{event.segment, event.line}];
  if (event.number != line.parts.size() + 1 && complete_) {
    findings_.Violate("NumberOrder", Here(),
                      absl::StrCat("the client made part ", event.number, " of segment ", event.segment.v,
                                   " after part ", line.parts.size()));
  }
  if (event.number == 0 || event.number > line.parts.size() + 1) return;
  line.parts.resize(std::max<size_t>(line.parts.size(), event.number));
  line.parts[event.number - 1] = {.content = event.content, .count = event.count};
  ++pushes_;
  if (event.line == Line::kArrival) {
    pushed_as_[{event.segment, event.table}].push_back({.pushes = pushes_, .number = event.number});
  }
}

void ClientHistory::On(const history::Emptied& event) {
  PushedLine& line = lines_[{event.segment, event.line}];
  if (event.number >= 1 && event.number <= line.parts.size()) line.parts[event.number - 1].emptied = true;
}

void ClientHistory::On(const history::Acknowledged& event) {
  PushedLine& line = lines_[{event.segment, event.line}];
  if (complete_ && event.number > line.parts.size()) {
    findings_.Violate("AckLogged", Here(),
                      absl::StrCat("part ", event.number, " of segment ", event.segment.v,
                                   " is acknowledged, and the client has made ", line.parts.size()));
  }
  if (event.number <= line.acknowledged) return;
  line.acknowledged = event.number;
  line.acknowledged_at = Here();
}

void ClientHistory::On(const history::ReadBegun& event) {
  Read& read = reads_[event.read];
  const auto table = tables_.find(event.table);
  if (table != tables_.end()) read.table = &table->second;
  read.reader = event.reader;
  if (event.bounded) read.min_clock = event.min_clock;
  read.leaves = leaves_;
  read.pushes = pushes_;
}

const ClientHistory::Read* ClientHistory::FindRead(uint64_t read) const {
  const auto it = reads_.find(read);
  return it == reads_.end() || it->second.table == nullptr ? nullptr : &it->second;
}

void ClientHistory::On(const history::Certified& event) {
  ++findings_.report.certificates;
  certificates_.push_back({.job = job_,
                           .session = session_,
                           .segment = event.segment,
                           .epoch = event.epoch,
                           .version = event.version,
                           .min_clock = event.min_clock,
                           .own = event.own,
                           .place = Here()});
  CheckVoid(event.segment, event.epoch, event.version, /*cached=*/false);
  Know(event.segment, event.epoch, event.began);
  const Read* read = FindRead(event.read);
  if (read == nullptr) return;
  CheckBound(*read, event.segment, event.min_clock);
  const PartNumber own = OwnWrites(*read) ? PushedBefore(*read, event.segment) : 0;
  if (event.own >= own) return;
  findings_.Violate(
      "OwnWrites", Here(),
      absl::StrCat("a read of table '", read->table->name, "' at segment ", event.segment.v,
                   " holds the reader's parts up to ", event.own, "; it had made ", own, " before it read"));
}

void ClientHistory::On(const history::CacheHit& event) {
  ++findings_.report.cache_hits;
  CheckVoid(event.segment, event.epoch, event.version, /*cached=*/true);
  const Read* read = FindRead(event.read);
  if (read == nullptr) return;
  CheckBound(*read, event.segment, event.min_clock);
  if (!OwnWrites(*read) || read->table->additive || event.own >= event.pushed) return;
  findings_.Violate("OwnWrites", Here(),
                    absl::StrCat("a cached row of table '", read->table->name, "' at segment ",
                                 event.segment.v, " was read with the client's parts up to ", event.own,
                                 "; its part ", event.pushed, " touched the row since"));
}

bool ClientHistory::OwnWrites(const Read& read) {
  if (read.table->aggregated || !read.table->own_writes) return false;
  return read.table->model == history::Model::kSsp || read.min_clock.has_value();
}

PartNumber ClientHistory::PushedBefore(const Read& read, SegmentId segment) const {
  const auto it = pushed_as_.find({segment, read.table->table});
  if (it == pushed_as_.end()) return 0;
  const auto later = std::upper_bound(it->second.begin(), it->second.end(), read.pushes,
                                      [](uint64_t pushes, const Made& part) { return pushes < part.pushes; });
  return later == it->second.begin() ? 0 : std::prev(later)->number;
}

void ClientHistory::CheckBound(const Read& read, SegmentId segment, Clock min_clock) {
  const history::TableOpened& table = *read.table;
  Clock least = 0;
  if (read.min_clock.has_value()) {
    least = *read.min_clock;
  } else if (worker_ && table.model == history::Model::kBsp) {
    least = read.reader;
  } else if (worker_ && table.model == history::Model::kSsp) {
    least = read.reader - std::min(read.reader, table.staleness);
  }
  if (min_clock < least) {
    findings_.Violate("ReadBound", Here(),
                      absl::StrCat("a read of table '", table.name, "' at clock ", read.reader, ", segment ",
                                   segment.v, ", got min clock ", min_clock, "; it needs ", least));
  }
  const bool exact = table.model == history::Model::kBsp && worker_ && !read.min_clock.has_value();
  if (exact && !read.leaves && min_clock > read.reader) {
    findings_.Violate("ReadBound", Here(),
                      absl::StrCat("a bulk synchronous read of table '", table.name, "' at clock ",
                                   read.reader, ", segment ", segment.v, ", got min clock ", min_clock,
                                   "; it needs exactly ", read.reader));
  }
}

// An answer that was under way while the client heard of the next epoch may still count. What comes from the
// cache must not, unless it is sure that the version outlived every later beginning.
void ClientHistory::CheckVoid(SegmentId segment, Epoch epoch, Lsn version, bool cached) {
  const auto& known = known_[segment];
  Epoch before = epoch;
  for (auto it = known.upper_bound(epoch); it != known.end(); ++it) {
    const auto& [later, began] = *it;
    if (began.has_value() && version > *began) {
      return findings_.Violate("VoidVersions", Here(),
                               absl::StrCat(VersionOf(segment, epoch, version), ", was handed out, and the ",
                                            "client knew that epoch ", later.v, " began at ", began->v));
    }
    if (cached && complete_ && (!began.has_value() || later.v != before.v + 1)) {
      return findings_.Violate(
          "VoidVersions", Here(),
          absl::StrCat(VersionOf(segment, epoch, version), ", was handed out from the cache, and the client ",
                       "knew of epoch ", later.v, ", but not where every epoch since began"));
    }
    before = later;
  }
}

void ClientHistory::Know(SegmentId segment, Epoch epoch, std::optional<Lsn> began) {
  std::optional<Lsn>& known = known_[segment][epoch];
  if (!began.has_value() || known == began) return;
  epochs_.push_back({.segment = segment, .epoch = epoch, .began = *began, .place = Here()});
  known = began;
}

void ClientHistory::On(const history::EpochKnown& event) {
  Know(event.segment, event.epoch, event.began_known ? std::optional<Lsn>(event.began) : std::nullopt);
}

void ClientHistory::On(const history::Ticked& event) {
  if (complete_ && event.clock != clock_ + 1) {
    findings_.Violate("Ticks", Here(),
                      absl::StrCat("the worker ticked from clock ", clock_, " to ", event.clock));
  }
  clock_ = event.clock;
}

void ClientHistory::On(const history::Failed& event) {
  if (event.code != static_cast<uint32_t>(absl::StatusCode::kDataLoss)) return;
  findings_.Violate("AckLogged", Here(), absl::StrCat("the client was told of a loss: ", event.why));
}

}  // namespace paceline::verify
