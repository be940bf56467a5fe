#include "tools/verify/verifier.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace paceline::verify {

SegmentLog& Verifier::LogOf(SegmentId segment) {
  return logs_.try_emplace(segment, findings_, segment).first->second;
}

void Verifier::TakeEnding(uint32_t file, const history::Reader::Ended& ended) {
  using Ending = history::Reader::Ending;
  if (ended.ending == Ending::kClean) return;
  if (ended.ending == Ending::kBroken) {
    return findings_.Violate("Readable", {.file = file, .offset = ended.offset}, ended.why);
  }
  findings_.Miss(absl::StrCat(findings_.NameOf(file), " ends early, at byte ", ended.offset, ": ", ended.why,
                              "; what its process did last is not in it"));
}

void Verifier::AddFile(const std::string& name, std::string_view bytes) {
  const uint32_t file = findings_.AddFile(name);
  history::Reader reader(bytes);
  std::unique_ptr<ClientHistory> client;
  ShardFile shard{.file = file, .self = {}, .identified = false, .held = {}};
  while (const auto item = reader.Next()) {
    ++findings_.report.events;
    if (const auto* start = std::get_if<history::Start>(&item->event)) {
      const bool of_client = start->program == history::Program::kClient;
      ++(of_client ? findings_.report.clients : findings_.report.shards);
      if (of_client) client = std::make_unique<ClientHistory>(findings_, file);
      continue;
    }
    if (const auto* gap = std::get_if<history::Gap>(&item->event)) {
      findings_.Miss(
          absl::StrCat(name, ", byte ", item->offset, ": ", gap->events, " events are missing: ", gap->why));
      if (client != nullptr) client->OnGap();
      for (auto& [segment, held] : shard.held) held.known = false;
      continue;
    }
    if (client != nullptr) {
      client->Take(item->offset, item->event);
    } else {
      TakeShardEvent(shard, item->offset, item->event);
    }
  }
  TakeEnding(file, reader.end());
  const bool clean = reader.end().ending == history::Reader::Ending::kClean;
  if (client != nullptr) {
    client->OnEnd(clean);
    clients_.push_back(std::move(client));
  } else if (!clean) {
    for (const auto& [segment, held] : shard.held) LogOf(segment).AddOpenEnd(held.wrote);
  }
}

void Verifier::TakeCluster(const history::Identified& event, Place place) {
  if (cluster_ == 0) cluster_ = event.cluster;
  if (event.cluster == 0 || event.cluster == cluster_) return;
  findings_.Violate("Readable", place,
                    absl::StrCat("the file is of cluster ", event.cluster, ", and another one of cluster ",
                                 cluster_, "; verify the files of one cluster at a time"));
}

void Verifier::TakeShardEvent(ShardFile& shard, uint64_t offset, const history::Event& event) {
  const Place place{.file = shard.file, .offset = offset};
  if (const auto* identified = std::get_if<history::Identified>(&event)) {
    shard.self = {.shard = identified->shard, .incarnation = identified->incarnation};
    shard.identified = true;
    TakeCluster(*identified, place);
  } else if (const auto* role = std::get_if<history::RoleTaken>(&event)) {
    shard.held.try_emplace(role->segment);
    if (role->role != history::Role::kPrimary) return;
    LogOf(role->segment).AddPrimary(role->epoch, shard.self, place);
    LogOf(role->segment).AddBegan(role->epoch, role->lsn, place);
    shard.held[role->segment].wrote = role->epoch;
  } else if (const auto* logged = std::get_if<history::Logged>(&event)) {
    TakeLogged(shard, place, *logged);
  } else if (const auto* installed = std::get_if<history::Installed>(&event)) {
    Held& held = shard.held[installed->segment];
    held.known = true;
    held.lsn = installed->lsn;
    held.epoch = installed->epoch;
  }
}

void Verifier::TakeLogged(ShardFile& shard, Place place, const history::Logged& event) {
  ++findings_.report.records;
  Held& held = shard.held[event.segment];
  if (held.known && event.lsn.v != held.lsn.v + 1) {
    findings_.Violate("LogMatching", place,
                      absl::StrCat("segment ", event.segment.v, ": the member applied record ", event.lsn.v,
                                   " after record ", held.lsn.v));
  }
  if (held.known && event.epoch < held.epoch) {
    findings_.Violate("LogMatching", place,
                      absl::StrCat("segment ", event.segment.v, ": record ", event.lsn.v, " of epoch ",
                                   event.epoch.v, " follows one of epoch ", held.epoch.v));
  }
  SegmentLog& log = LogOf(event.segment);
  log.Add(event, held.known ? held.epoch : Epoch(), place);
  if (event.primary) {
    log.AddPrimary(event.epoch, shard.self, place);
    held.wrote = event.epoch;
  }
  held.known = true;
  held.lsn = event.lsn;
  held.epoch = event.epoch;
}

Report Verifier::Finish() {
  SegmentLog::ClientOf by_session;
  for (const auto& client : clients_) {
    if (client->session() != SessionId()) by_session[client->session()] = client.get();
    for (const EpochBegan& epoch : client->epochs()) {
      LogOf(epoch.segment).AddBegan(epoch.epoch, epoch.began, epoch.place);
    }
  }
  for (auto& [segment, log] : logs_) log.Check(by_session);

  std::map<std::pair<SegmentId, JobId>, std::vector<GivenCertificate>> certificates;
  for (const auto& client : clients_) {
    for (const auto& [key, line] : client->lines()) {
      LogOf(key.first).CheckAcknowledged(*client, key.second, line);
    }
    for (const GivenCertificate& given : client->certificates()) {
      certificates[{given.segment, given.job}].push_back(given);
    }
  }
  for (auto& [key, given] : certificates) LogOf(key.first).CheckCertificates(std::move(given));
  return std::move(findings_.report);
}

}  // namespace paceline::verify
