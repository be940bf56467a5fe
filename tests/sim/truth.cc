#include "tests/sim/truth.h"

#include <algorithm>
#include <cstring>

namespace paceline::sim {
namespace {

template <class T>
std::vector<T> Unpack(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace

PartNumber TrueSession::SealedAt(uint32_t segment, Clock clock) const {
  const auto it = parts.find(segment);
  if (it == parts.end()) return 0;
  const auto end = std::lower_bound(it->second.begin(), it->second.end(), clock,
                                    [](const TruePart& part, Clock c) { return part.clock < c; });
  return static_cast<PartNumber>(end - it->second.begin());
}

PartNumber TrueSession::Last(uint32_t segment) const {
  const auto it = parts.find(segment);
  return it == parts.end() ? 0 : it->second.size();
}

TrueSession& Truth::Add(SessionId id, const std::string& client) {
  TrueSession& session = sessions_[id];
  session.id = id;
  session.client = client;
  session.column = static_cast<uint32_t>(sessions_.size() - 1) % kColumns;
  return session;
}

TrueSession* Truth::Find(SessionId id) {
  const auto it = sessions_.find(id);
  return it == sessions_.end() ? nullptr : &it->second;
}

void Truth::OnPush(SessionId id, Clock clock, const sdk::TableInfo& table, const sdk::Batch& batch,
                   bool valid) {
  TrueSession& session = sessions_.at(id);
  ++now_;
  for (const sdk::Batch::Piece& piece : batch.pieces) {
    const absl::string_view piece_keys = batch.Keys(piece);
    const absl::string_view piece_values = batch.Values(piece);
    TruePart part{.clock = clock,
                  .table = table.id,
                  .keys = std::string(piece_keys.data(), piece_keys.size()),
                  .values = std::string(piece_values.data(), piece_values.size()),
                  .valid = valid};
    std::vector<TruePart>& line = session.parts[piece.segment.v];
    const std::vector<uint64_t> keys = Unpack<uint64_t>(part.keys);
    const std::vector<float> values = Unpack<float>(part.values);
    const uint32_t column = table.id == assigns ? 0 : session.column;
    for (size_t i = 0; valid && i < keys.size(); ++i) {
      updates_[{table.id, keys[i]}].push_back({.session = id,
                                               .segment = piece.segment.v,
                                               .number = line.size() + 1,
                                               .clock = clock,
                                               .column = column,
                                               .value = values[i * table.schema.dim + column],
                                               .pushed = now_});
    }
    line.push_back(std::move(part));
    ++parts_;
  }
}

void Truth::OnAcked(SessionId id, SegmentId segment, PartNumber upto) {
  std::vector<TruePart>& line = sessions_.at(id).parts[segment.v];
  ++now_;
  for (PartNumber n = std::min<PartNumber>(upto, line.size()); n > 0 && !line[n - 1].acked; --n) {
    TruePart& part = line[n - 1];
    part.acked = true;
    ++parts_acked_;
    if (!part.valid) continue;
    for (uint64_t key : Unpack<uint64_t>(part.keys)) {
      for (Update& update : updates_[{part.table, key}]) {
        const bool same = update.session == id && update.segment == segment.v && update.number == n;
        if (same) update.acked = now_;
      }
    }
  }
}

Bounds Truth::BoundsOf(const TrueRead& read, uint64_t key, uint32_t column) const {
  Bounds bounds;
  const auto it = updates_.find({read.table, key});
  if (it == updates_.end()) return bounds;
  const bool assigned = read.table == assigns;
  for (const Update& update : it->second) {
    if (update.column != column) continue;
    const auto hold = [&](float& bound) { bound = assigned ? update.value : bound + update.value; };
    const TrueSession& session = sessions_.at(update.session);
    hold(bounds.most);
    if (read.own_writes && update.session == read.reader && update.pushed <= read.made) hold(bounds.own);
    if (update.acked <= read.made) hold(bounds.acked);
    // Of one who was evicted only a prefix counts; who joined later pushes nothing of clocks passed.
    if (session.worker && !session.closing && update.clock < read.min_clock) hold(bounds.clock);
  }
  return bounds;
}

}  // namespace paceline::sim
