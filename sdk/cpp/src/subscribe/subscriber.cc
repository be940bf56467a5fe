#include "sdk/cpp/src/subscribe/subscriber.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/little_endian.h"
#include "libs/base/text.h"
#include "libs/wire/packed.h"
#include "sdk/cpp/src/bound/value_bounds.h"
#include "sdk/cpp/src/session/promise.h"

namespace paceline::sdk {
namespace {

// Shards tell of changes from this level on.
constexpr uint32_t kLevel = 2;

// One entry of an update, for one segment.
struct Entry {
  wire::Certificate certificate;
  Lsn after;
  uint64_t set = 0;
  std::optional<uint32_t> count;
  uint32_t left_out = 0;
};

// How many keys of `left_out` are of each certificate's segment; nullopt: the lists do not fit each other.
std::optional<std::vector<uint32_t>> LeftOutOf(const v1::SubscribeUpdate& head, size_t certificates) {
  const std::string& packed = head.left_out_counts();
  if (packed.size() % sizeof(uint32_t) != 0 || packed.size() / sizeof(uint32_t) > certificates) {
    return std::nullopt;
  }
  std::vector<uint32_t> counts(certificates);
  uint64_t keys = 0;
  for (size_t i = 0; i < packed.size() / sizeof(uint32_t); ++i) {
    counts[i] = LoadU32(packed.data() + i * sizeof(uint32_t));
    keys += counts[i];
  }
  if (keys * sizeof(uint64_t) != head.left_out().size()) return std::nullopt;
  return counts;
}

// INTERNAL: the lists do not fit each other, the keys or the values.
absl::StatusOr<std::vector<Entry>> EntriesOf(const wire::Frame<v1::SubscribeUpdate>& update,
                                             size_t row_bytes) {
  const v1::SubscribeUpdate& head = update.head;
  auto certificates = wire::ParseCertificates(head.certificates());
  if (!certificates.ok()) return certificates.status();
  const size_t n = certificates->size();
  const bool fit = head.after().size() == n * sizeof(uint64_t) &&
                   head.sets().size() == n * sizeof(uint64_t) &&
                   head.changes().size() == n * sizeof(uint32_t);
  const std::optional<std::vector<uint32_t>> left_out = LeftOutOf(head, n);
  if (!fit || !left_out.has_value()) {
    return absl::InternalError("an update whose lists have different lengths");
  }
  std::vector<Entry> entries;
  uint64_t rows = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint32_t count = LoadU32(head.changes().data() + i * sizeof(uint32_t));
    entries.push_back({.certificate = (*certificates)[i],
                       .after = Lsn(LoadU64(head.after().data() + i * sizeof(uint64_t))),
                       .set = LoadU64(head.sets().data() + i * sizeof(uint64_t)),
                       .count = count == wire::kChangesUnknown ? std::nullopt : std::optional(count),
                       .left_out = (*left_out)[i]});
    rows += entries.back().count.value_or(0);
  }
  if (rows * sizeof(uint64_t) != update.keys.size() || rows * row_bytes != update.values.size()) {
    return absl::InternalError("an update whose keys or values do not fit its changes");
  }
  return entries;
}

}  // namespace

void Subscriber::Leave() {
  const bool nothing = tables_.empty() && context_.bounds->empty();
  if (nothing || !context_.failure.ok() || context_.routes->map.feature_level() < kLevel) return;
  for (const SegmentId segment : context_.cache.TakeSetsChanged()) WakeLinkOf(segment);
  for (const SegmentId segment : context_.bounds->TakeDue()) WakeLinkOf(segment);
}

void Subscriber::WakeLinkOf(SegmentId segment) {
  const ring::ShardInfo& shard = context_.routes->PrimaryOf(segment);
  std::shared_ptr<SubscribeLink>& link = links_[shard.id];
  if (link == nullptr) link = std::make_shared<SubscribeLink>(context_, *this, shard);
  link->Wake();
}

bool Subscriber::HasToSay(const SubscribeLink& link) const {
  return context_.bounds->HasToSay([&](SegmentId s) { return IsPrimary(link, s); });
}

bool Subscriber::TakeToSay(const SubscribeLink& link, v1::SubscribeRequest& request) {
  return context_.bounds->TakeToSay([&](SegmentId s) { return IsPrimary(link, s); }, request);
}

absl::Status Subscriber::OnRounds(const SubscribeLink& link, absl::string_view packed) {
  const auto rounds = wire::ParseRounds(packed);
  if (!rounds.ok()) return rounds.status();
  for (const wire::Round& round : *rounds) {
    if (round.segment.v >= context_.routes->map.SegmentCount()) {
      return absl::InternalError(absl::StrCat("rounds: segment ", round.segment.v, " is not on the ring"));
    }
    // One that has lost the segment since says nothing new.
    if (IsPrimary(link, round.segment)) context_.bounds->OnRound(round);
  }
  context_.bounds->OnRoundsTaken();
  return absl::OkStatus();
}

void Subscriber::OnStreamLost(const SubscribeLink& link) {
  for (uint32_t s = 0; s < context_.routes->map.SegmentCount() && !context_.bounds->empty(); ++s) {
    if (IsPrimary(link, SegmentId(s))) context_.bounds->Lost(SegmentId(s));
  }
}

bool Subscriber::HasChange(const SubscribeLink& link) const {
  for (const auto& [id, table] : tables_) {
    if (context_.cache.HasSetChange(*table, [&](SegmentId s) { return IsPrimary(link, s); })) return true;
  }
  return false;
}

bool Subscriber::TakeChange(const SubscribeLink& link, wire::Frame<v1::SubscribeRequest>& request,
                            std::set<SegmentId>& segments) {
  for (const auto& [id, table] : tables_) {
    const auto change = context_.cache.TakeSetChange(*table, [&](SegmentId s) { return IsPrimary(link, s); });
    if (!change.has_value()) continue;
    v1::SubscribeRequest& head = request.head;
    head.set_table(id.v);
    head.set_set(change->number);
    head.set_catalogue_version(context_.catalogue_version.v);
    const Promise promise = PromiseOf(table->consistency);
    head.set_every(promise.told_every);
    if (promise.told_bytes > 0) {
      head.set_budget(std::max<uint64_t>(promise.told_bytes / context_.routes->map.SegmentCount(), 1));
    }
    head.set_leave(change->leave);
    for (const auto& [segment, keys] : change->segments) {
      wire::Append(wire::PartEntry{.segment = segment,
                                   .count = static_cast<uint32_t>(keys.size()),
                                   .epoch = context_.routes->map.EpochOf(segment),
                                   .number = 0},
                   *head.mutable_parts());
      request.keys.Append(
          absl::string_view(reinterpret_cast<const char*>(keys.data()), keys.size() * sizeof(uint64_t)));
      segments.insert(segment);
    }
    return true;
  }
  return false;
}

absl::Status Subscriber::OnUpdate(const SubscribeLink& link, const wire::Frame<v1::SubscribeUpdate>& update) {
  for (const v1::Refusal& refusal : update.head.refusals()) OnRefused(update.head, refusal);
  if (absl::Status rounds = OnRounds(link, update.head.rounds()); !rounds.ok()) return rounds;
  if (update.head.certificates().empty()) return absl::OkStatus();
  const auto found = tables_.find(TableId(update.head.table()));
  if (found == tables_.end()) {
    return absl::InternalError(absl::StrCat("table: ", update.head.table(), " was not asked for"));
  }
  const TableInfo& table = *found->second;
  const size_t row_bytes = table.schema.dim * sizeof(float);
  const auto entries = EntriesOf(update, row_bytes);
  if (!entries.ok()) return entries.status();
  const wire::FlatBytes keys(update.keys);
  size_t row = 0, left_out = 0;
  for (const Entry& entry : *entries) {
    const SegmentId segment = entry.certificate.segment;
    if (segment.v >= context_.routes->map.SegmentCount()) {
      return absl::InternalError(absl::StrCat("certificates: segment ", segment.v, " is not on the ring"));
    }
    const size_t rows = entry.count.value_or(0);
    // One that has lost the segment since says nothing new.
    if (IsPrimary(link, segment)) {
      context_.cache.Learn(entry.certificate);
      context_.history.Learn(entry.certificate);
      context_.cache.OnUpdate(table, entry.certificate, entry.after, static_cast<uint32_t>(entry.set),
                              entry.count,
                              keys.view().substr(row * sizeof(uint64_t), rows * sizeof(uint64_t)),
                              update.values.Subcord(row * row_bytes, rows * row_bytes),
                              absl::string_view(update.head.left_out())
                                  .substr(left_out * sizeof(uint64_t), entry.left_out * sizeof(uint64_t)));
    }
    row += rows;
    left_out += entry.left_out;
  }
  context_.stats.rows_refreshed += row;
  context_.stats.bytes_pulled += update.keys.size() + update.values.size();
  return absl::OkStatus();
}

void Subscriber::OnRefused(const v1::SubscribeUpdate& update, const v1::Refusal& refusal) {
  if (refusal.reason() == v1::Refusal::MALFORMED) {
    return context_.fail(absl::InternalError(absl::StrCat("subscribe: ", Escaped(refusal.message()))));
  }
  const auto table = tables_.find(TableId(update.table()));
  if (table == tables_.end()) return;  // the session is over, as pushes and pulls are told too
  const bool pause = refusal.reason() != v1::Refusal::MOVED && refusal.reason() != v1::Refusal::UNAVAILABLE;
  context_.cache.OnSetEnded(*table->second, SegmentId(refusal.segment()), pause);
  if (refusal.reason() == v1::Refusal::MOVED &&
      MapVersion(refusal.map_version()) > context_.routes->map.version()) {
    context_.want_map(MapVersion(refusal.map_version()));
  }
}

void Subscriber::EndSets(SegmentId segment) {
  for (const auto& [id, table] : tables_) context_.cache.OnSetEnded(*table, segment, /*pause=*/false);
}

void Subscriber::OnSetsLost(const SubscribeLink& link, const std::set<SegmentId>& segments) {
  for (const SegmentId segment : segments) {
    if (IsPrimary(link, segment))
      EndSets(segment);  // those of a segment that has moved live at another shard
  }
}

void Subscriber::OnMap() {
  const std::shared_ptr<const Routes> before = std::exchange(routed_by_, context_.routes);
  if (before == nullptr) return;
  for (uint32_t s = 0; s < context_.routes->map.SegmentCount(); ++s) {
    const SegmentId segment(s);
    if (before->map.EpochOf(segment) == context_.routes->map.EpochOf(segment)) continue;
    EndSets(segment);
    context_.bounds->Lost(segment);
  }
  FollowRoutes(*context_.routes, links_);
}

void Subscriber::Fail() {
  for (auto& [shard, link] : links_) link->Shut();
  links_.clear();
}

}  // namespace paceline::sdk
