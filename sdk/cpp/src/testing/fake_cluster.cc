#include "sdk/cpp/src/testing/fake_cluster.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/base/little_endian.h"

namespace paceline::sdk::testing {
namespace {

v1::Refusal Refuse(v1::Refusal::Reason reason, uint32_t segment, std::string message) {
  v1::Refusal refusal;
  refusal.set_reason(reason);
  refusal.set_segment(segment);
  refusal.set_message(std::move(message));
  return refusal;
}

// The keys a part's entries stand for.
std::vector<uint64_t> KeysOf(bool ranges, const char* at, uint32_t entries) {
  std::vector<uint64_t> keys;
  for (uint32_t i = 0; i < entries; ++i) {
    const uint64_t first = LoadU64(at + (ranges ? 16 : 8) * i);
    const uint64_t count = ranges ? LoadU64(at + 16 * i + 8) : 1;
    for (uint64_t k = 0; k < count; ++k) keys.push_back(first + k);
  }
  return keys;
}

}  // namespace

FakeCluster::FakeCluster(int ring_bits, uint32_t shards)
    : shards_(shards), segments_(size_t{1} << ring_bits) {
  for (uint32_t s = 0; s < segments_.size(); ++s) segments_[s].primary = s % shards_;
  for (uint32_t s = 0; s < shards_; ++s) addresses_.push_back(AddressOf(s));
}

v1::Map FakeCluster::Map() const {
  v1::Map map;
  map.set_version(version_);
  map.set_cluster(id);
  map.set_feature_level(feature_level);
  while ((size_t{1} << map.ring_bits()) < segments_.size()) map.set_ring_bits(map.ring_bits() + 1);
  for (const Segment& segment : segments_) {
    v1::SegmentConfig* config = map.add_segments();
    config->set_epoch(segment.epoch);
    config->mutable_primary()->set_shard(segment.primary);
    config->mutable_primary()->set_incarnation(1);
    for (const uint32_t replica : segment.replicas) {
      v1::Member* member = config->add_replicas();
      member->set_shard(replica);
      member->set_incarnation(1);
    }
  }
  for (uint32_t s = 0; s < shards_; ++s) {
    v1::ShardInfo* shard = map.add_shards();
    shard->set_shard(s);
    shard->set_name(absl::StrCat("shard-", s));
    shard->set_address(addresses_[s]);
    shard->set_incarnation(1);
  }
  return map;
}

void FakeCluster::Join(uint64_t session, Clock clock) {
  for (Segment& segment : segments_) {
    segment.workers[session] = {.clock = clock, .claimed = clock, .seals = {}};
    Count(segment);
  }
}

void FakeCluster::Move(uint32_t segment, uint32_t to, bool lose_uncommitted) {
  Segment& s = segments_[segment];
  if (lose_uncommitted) s.log.resize(s.committed);
  s.committed = s.log.size();
  s.began = s.log.size();
  s.staged.clear();
  s.primary = to;
  std::erase(s.replicas, to);
  ++s.epoch;
  ++version_;
  for (auto& [session, worker] : s.workers)
    worker.claimed = worker.clock = std::min(worker.clock, s.min_clock);
  for (auto& [session, worker] : s.workers) worker.seals.clear();
}

void FakeCluster::AddReplica(uint32_t segment, uint32_t shard) {
  segments_[segment].replicas.push_back(shard);
  ++segments_[segment].epoch;
  ++version_;
}

void FakeCluster::Relocate(uint32_t shard, std::string address) {
  addresses_[shard] = std::move(address);
  ++version_;
}

void FakeCluster::Lose(uint32_t segment, PartNumber last) {
  Segment& s = segments_[segment];
  const auto gone = [last](const Entry& entry) { return entry.number > last; };
  s.log.erase(std::remove_if(s.log.begin(), s.log.end(), gone), s.log.end());
  s.committed = s.log.size();
}

PartNumber FakeCluster::Applied(uint32_t segment, uint64_t session, Line line) const {
  PartNumber applied = 0;
  for (const Entry& e : segments_[segment].log) {
    if (e.session == session && e.line == line) applied = e.number;
  }
  return applied;
}

PartNumber FakeCluster::Here(uint32_t segment, uint64_t session, Line line) const {
  PartNumber here = Applied(segment, session, line);
  for (const Entry& e : segments_[segment].staged) {
    if (e.session == session && e.line == line) here = std::max(here, e.number);
  }
  return here;
}

bool FakeCluster::Finish(uint64_t session, Clock clock, const std::string& seals) {
  bool all = true;
  const std::vector<wire::Seal> parsed = wire::ParseSeals(seals).value();
  for (uint32_t s = 0; s < segments_.size(); ++s) {
    Segment& segment = segments_[s];
    const auto worker = segment.workers.find(session);
    if (worker == segment.workers.end()) continue;
    worker->second.claimed = clock;
    worker->second.seals.clear();
    for (const wire::Seal& seal : parsed) {
      if (seal.segment.v == s) worker->second.seals[static_cast<uint32_t>(seal.line)] = seal.number;
    }
    Count(segment);
    bool applied = true;
    for (auto [line, number] : worker->second.seals) {
      applied = applied && Committed(segment, session, static_cast<Line>(line)) >= number;
    }
    if (applied) segment.workers.erase(worker);
    all = all && applied;
  }
  return all;
}

PartNumber FakeCluster::Committed(const Segment& segment, uint64_t session, Line line) const {
  PartNumber committed = 0;
  for (size_t i = 0; i < segment.committed; ++i) {
    const Entry& e = segment.log[i];
    if (e.session == session && e.line == line) committed = e.number;
  }
  return committed;
}

Clock FakeCluster::MinClock(uint32_t segment) const {
  return segments_[segment].min_clock;
}

std::vector<float> FakeCluster::Row(uint32_t segment, uint32_t table, uint64_t key) const {
  const uint32_t dim = dims_.at(table);
  std::vector<float> row(dim, 0.0f);
  for (const Entry& e : segments_[segment].log) {
    if (e.table != table) continue;
    for (size_t i = 0; i < e.keys.size(); ++i) {
      if (e.keys[i] != key) continue;
      for (uint32_t d = 0; d < dim; ++d) row[d] += e.values[i * dim + d];
    }
  }
  return row;
}

void FakeCluster::CommitAll() {
  for (Segment& segment : segments_) segment.committed = segment.log.size();
}

std::optional<v1::Refusal> FakeCluster::Misrouted(uint32_t shard, const wire::PartEntry& part) const {
  const Segment& segment = segments_[part.segment.v];
  if (segment.primary == shard) return std::nullopt;
  v1::Refusal refusal = Refuse(v1::Refusal::MOVED, part.segment.v, "not primary here");
  refusal.set_map_version(version_);
  return refusal;
}

std::optional<v1::Refusal> FakeCluster::Take(uint32_t shard, uint64_t session, const v1::PushRequest& head,
                                             const wire::PartEntry& part, Entry entry) {
  if (judge) {
    if (auto refusal = judge(head, part)) return refusal;
  }
  if (auto moved = Misrouted(shard, part)) return moved;
  if (!open_.contains(session)) return Refuse(v1::Refusal::FENCED, part.segment.v, "session is not open");
  Segment& segment = segments_[part.segment.v];
  const PartNumber applied = Here(part.segment.v, session, entry.line);
  if (part.number > applied + 1) {
    v1::Refusal refusal = Refuse(v1::Refusal::OUT_OF_ORDER, part.segment.v, "a number is missing");
    refusal.set_expected(applied + 1);
    return refusal;
  }
  const auto is_same = [&](const Entry& e) {
    return e.session == session && e.line == entry.line && e.number == part.number;
  };
  auto same = std::find_if(segment.log.begin(), segment.log.end(), is_same);
  bool known = same != segment.log.end();
  if (!known) {
    same = std::find_if(segment.staged.begin(), segment.staged.end(), is_same);
    known = same != segment.staged.end();
  }
  if (known) {
    if (same->keys != entry.keys || same->values != entry.values || same->clock != entry.clock) {
      violations.push_back(
          absl::StrCat("segment ", part.segment.v, ": part ", part.number, " changed its content"));
    }
    return std::nullopt;
  }
  for (const Entry& e : segment.log) {
    if (e.session == session && e.line == entry.line && e.clock > entry.clock) {
      violations.push_back(
          absl::StrCat("segment ", part.segment.v, ": part ", part.number, " of an earlier clock"));
    }
  }
  if (entry.line == Line::kAggregated && entry.clock < segment.min_clock && !entry.keys.empty()) {
    violations.push_back(absl::StrCat("segment ", part.segment.v, ": part ", part.number, " of clock ",
                                      entry.clock, " comes after the fold"));
  }
  (entry.line == Line::kAggregated ? segment.staged : segment.log).push_back(std::move(entry));
  if (auto_commit) segment.committed = segment.log.size();
  Count(segment);
  return std::nullopt;
}

void FakeCluster::Count(Segment& segment) {
  const auto index = static_cast<uint32_t>(&segment - segments_.data());
  std::optional<Clock> min;
  for (auto& [session, worker] : segment.workers) {
    bool sealed = true;
    for (auto [line, number] : worker.seals) {
      sealed = sealed && Here(index, session, static_cast<Line>(line)) >= number;
    }
    if (sealed) worker.clock = std::max(worker.clock, worker.claimed);
    min = std::min(min.value_or(worker.clock), worker.clock);
  }
  segment.min_clock = std::max(segment.min_clock, min.value_or(0));
  Fold(segment);
}

void FakeCluster::Fold(Segment& segment) {
  const auto complete = std::stable_partition(segment.staged.begin(), segment.staged.end(),
                                              [&](const Entry& e) { return e.clock >= segment.min_clock; });
  if (complete == segment.staged.end()) return;
  std::move(complete, segment.staged.end(), std::back_inserter(segment.log));
  segment.staged.erase(complete, segment.staged.end());
  // The min clock that has been certified by now must not be lost with it.
  segment.committed = segment.log.size();
}

bool FakeCluster::Serve(uint32_t shard, uint64_t session, const Stream::Parked& pull, absl::Cord* out) const {
  wire::Frame<v1::PullReply> reply;
  reply.head.set_request(pull.head.request());
  const auto parts = wire::ParseParts(pull.head.parts()).value();
  std::string values;
  const bool ranges = pull.head.key_form() == v1::KEY_FORM_RANGES;
  const char* at = pull.keys.data();
  for (const wire::PartEntry& part : parts) {
    const std::vector<uint64_t> keys = KeysOf(ranges, at, part.count);
    at += part.count * (ranges ? 16 : 8);
    wire::Certificate certificate;
    certificate.segment = part.segment;
    if (auto moved = Misrouted(shard, part)) {
      *reply.head.add_refusals() = *moved;
    } else {
      const Segment& segment = segments_[part.segment.v];
      certificate.served = true;
      certificate.epoch = Epoch(segment.epoch);
      certificate.began = Lsn(segment.began);
      certificate.version = Lsn(segment.log.size());
      certificate.min_clock = segment.min_clock;
      certificate.own = Applied(part.segment.v, session, Line::kArrival);
      if (certificate.min_clock < pull.head.min_clock() || certificate.own < part.number) return false;
      for (uint64_t key : keys) {
        for (float value : Row(part.segment.v, pull.head.table(), key)) {
          values.resize(values.size() + 4);
          StoreF32(value, values.data() + values.size() - 4);
        }
      }
    }
    wire::Append(certificate, *reply.head.mutable_certificates());
  }
  reply.values = absl::Cord(values);
  *out = wire::Encode(reply);
  return true;
}

std::unique_ptr<FakeCluster::Stream> FakeCluster::Accept(const std::string& address, bool push) {
  for (uint32_t s = 0; s < shards_; ++s) {
    if (addresses_[s] == address) return std::unique_ptr<Stream>(new Stream(*this, s, push));
  }
  return nullptr;
}

v1::Welcome FakeCluster::Stream::Welcome() const {
  v1::Welcome welcome;
  welcome.set_feature_level(cluster_.feature_level);
  welcome.set_shard(shard_);
  welcome.set_incarnation(1);
  welcome.set_cluster(cluster_.answers_as);
  welcome.set_map_version(cluster_.version_);
  welcome.set_window_bytes(cluster_.window_bytes);
  welcome.set_frame_bytes_max(cluster_.frame_bytes_max);
  welcome.set_shard_name(absl::StrCat("shard-", shard_));
  return welcome;
}

void FakeCluster::Stream::OnFrame(const absl::Cord& bytes) {
  if (!push_) {
    const auto frame = wire::Decode<v1::PullRequest>(bytes).value();
    if (frame.head.has_hello()) {
      session_ = frame.head.hello().session();
      cluster_.last_hello = frame.head.hello();
      v1::PullReply reply;
      *reply.mutable_welcome() = Welcome();
      pull_replies_.emplace_back(reply.SerializeAsString());
    } else {
      parked_.push_back({.head = frame.head, .keys = std::string(frame.keys)});
    }
    return;
  }
  const auto frame = wire::Decode<v1::PushRequest>(bytes).value();
  if (!reply_.has_value()) reply_.emplace();
  if (frame.head.has_hello()) {
    session_ = frame.head.hello().session();
    cluster_.last_hello = frame.head.hello();
    *reply_->mutable_welcome() = Welcome();
    return;
  }
  ++frames_;
  OnPush(frame.head, std::string(frame.keys), std::string(frame.values));
  const auto read = wire::Decode<v1::PushPullRequest>(bytes).value();
  if (read.head.want_reply()) OnRead(read.head, std::string(frame.keys));
  if (frame.head.has_tick()) OnTick(frame.head.tick());
}

void FakeCluster::Stream::OnRead(const v1::PushPullRequest& head, const std::string& keys) {
  v1::PullRequest read;
  read.set_request(head.request());
  read.set_table(head.table());
  read.set_min_clock(head.min_clock());
  read.set_key_form(head.key_form());
  const std::vector<wire::PartEntry> parts = wire::ParseParts(head.parts()).value();
  for (wire::PartEntry part : parts) {
    if (head.line() != v1::LINE_ARRIVAL) part.number = 0;
    wire::Append(part, *read.mutable_parts());
  }
  parked_.push_back({.head = read, .keys = keys});
}

std::optional<absl::Cord> FakeCluster::Stream::NextRows() {
  for (auto it = parked_.begin(); it != parked_.end(); ++it) {
    absl::Cord bytes;
    if (!cluster_.Serve(shard_, session_, *it, &bytes)) continue;
    parked_.erase(it);
    auto pulled = wire::Decode<v1::PullReply>(bytes).value();
    wire::Frame<v1::PushPullReply> reply;
    reply.head.set_request(pulled.head.request());
    reply.head.set_certificates(pulled.head.certificates());
    reply.head.mutable_read_refusals()->Swap(pulled.head.mutable_refusals());
    reply.values = pulled.values;
    return wire::Encode(reply);
  }
  return std::nullopt;
}

void FakeCluster::Stream::OnPush(const v1::PushRequest& head, const std::string& keys,
                                 const std::string& values) {
  const bool ranges = head.key_form() == v1::KEY_FORM_RANGES;
  size_t key_at = 0;
  size_t value_at = 0;
  std::set<uint32_t> seen;
  const std::vector<wire::PartEntry> parts = wire::ParseParts(head.parts()).value();
  for (const wire::PartEntry& part : parts) {
    if (!seen.insert(part.segment.v).second && cluster_.feature_level < 2) {
      cluster_.violations.push_back("a segment twice in one frame");
    }
    FakeCluster::Entry entry{.session = session_,
                             .line = static_cast<Line>(head.line()),
                             .number = part.number,
                             .clock = head.clock(),
                             .table = part.count == 0 ? 0 : head.table(),
                             .keys = KeysOf(ranges, keys.data() + key_at, part.count),
                             .values = {}};
    key_at += part.count * (ranges ? 16 : 8);
    const size_t floats = part.count == 0 ? 0 : entry.keys.size() * cluster_.dims_.at(head.table());
    for (size_t i = 0; i < floats; ++i, value_at += 4)
      entry.values.push_back(LoadF32(values.data() + value_at));
    auto refusal = cluster_.Take(shard_, session_, head, part, std::move(entry));
    if (!refusal.has_value()) continue;
    refusal->set_frame(frames_);
    refusal->set_segment(part.segment.v);
    refusal->set_line(head.line());
    refusal->set_number(part.number);
    *reply_->add_refusals() = *refusal;
  }
  if (key_at != keys.size() || value_at != values.size())
    cluster_.violations.push_back("blobs do not fit the parts");
}

void FakeCluster::Stream::OnTick(const v1::Tick& tick) {
  if (tick.anew()) {
    named_.clear();
    ever_.clear();
  }
  std::map<uint32_t, std::map<uint32_t, PartNumber>> said;
  const std::vector<wire::Seal> seals = wire::ParseSeals(tick.seals()).value();
  for (const wire::Seal& seal : seals) {
    for (uint32_t s = seal.segment.v; s < seal.segment.v + seal.run; ++s) {
      said[s][static_cast<uint32_t>(seal.line)] = seal.number;
    }
  }
  v1::TickAck* ack = reply_->add_ticks();
  ack->set_clock(tick.clock());
  ack->set_number(tick.number());
  for (uint32_t s = 0; s < cluster_.segments_.size(); ++s) {
    Segment& segment = cluster_.segments_[s];
    if (said.contains(s)) {
      for (auto [line, number] : said[s]) ever_[s].insert(line);
    }
    if (segment.primary != shard_) continue;
    if (named_epoch_[s] != segment.epoch) named_.erase(s);
    if (said.contains(s)) {
      named_epoch_[s] = segment.epoch;
      for (auto [line, number] : said[s]) named_[s][line] = number;
    }
    // Of a line that it named in an earlier epoch, or before this shard was primary, it says nothing now.
    const bool all = named_.contains(s) &&
                     std::ranges::all_of(ever_[s], [&](uint32_t line) { return named_[s].contains(line); });
    if (!all || cluster_.speechless.contains(s)) {
      wire::Append(SegmentId(s), *ack->mutable_unspoken());
      continue;
    }
    for (const auto& [line, number] : named_[s]) {
      const PartNumber here = cluster_.Here(s, session_, static_cast<Line>(line));
      if (here >= number) continue;
      wire::Append(wire::Mark{SegmentId(s), static_cast<Line>(line), here}, *ack->mutable_here());
    }
    const auto worker = segment.workers.find(session_);
    if (worker == segment.workers.end() || tick.clock() < worker->second.claimed) continue;
    worker->second.claimed = tick.clock();
    worker->second.seals = named_[s];
    cluster_.Count(segment);
  }
}

std::optional<absl::Cord> FakeCluster::Stream::NextReply() {
  if (!push_) {
    for (auto it = parked_.begin(); it != parked_.end();) {
      absl::Cord reply;
      if (cluster_.Serve(shard_, session_, *it, &reply)) {
        pull_replies_.push_back(reply);
        it = parked_.erase(it);
      } else {
        ++it;
      }
    }
    if (pull_replies_.empty()) return std::nullopt;
    absl::Cord reply = pull_replies_.front();
    pull_replies_.erase(pull_replies_.begin());
    return reply;
  }
  if (auto rows = NextRows()) return rows;
  v1::PushReply reply = reply_.value_or(v1::PushReply());
  bool some = reply_.has_value() || received_told_ != frames_;
  reply_.reset();
  reply.set_received(frames_);
  if (cluster_.feature_level >= 2) reply.set_granted(cluster_.granted);
  received_told_ = frames_;
  for (uint32_t s = 0; s < cluster_.segments_.size(); ++s) {
    if (cluster_.segments_[s].primary != shard_) continue;
    for (const Line line : {Line::kArrival, Line::kAggregated}) {
      const PartNumber committed = cluster_.Committed(cluster_.segments_[s], session_, line);
      PartNumber& told = told_[{s, static_cast<uint32_t>(line)}];
      if (committed <= told) continue;
      told = committed;
      some = true;
      wire::Append(wire::Mark{.segment = SegmentId(s), .line = line, .number = committed},
                   *reply.mutable_committed());
    }
  }
  if (!some) return std::nullopt;
  return absl::Cord(reply.SerializeAsString());
}

}  // namespace paceline::sdk::testing
