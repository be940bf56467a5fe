#include "libs/log/seen_rounds.h"

#include <algorithm>

#include "libs/base/planted.h"

namespace paceline::log {
namespace {

PartNumber AppliedOf(const Segment& segment, SessionId session) {
  const Segment::SessionState* state = segment.FindSession(session);
  return state == nullptr ? 0 : state->applied.At(Line::kArrival);
}

uint32_t RankPlusOne(const Segment& segment, JobId job, SessionId session) {
  const auto clock = segment.jobs().find(job);
  if (clock == segment.jobs().end()) return 0;
  const auto worker = clock->second.workers().find(session);
  return worker == clock->second.workers().end() ? 0 : worker->second.rank + 1;
}

}  // namespace

void SeenRounds::Take(const ReadingNote& note, const View& view, absl::Time now) {
  if (!began_.has_value()) began_ = now;
  now_ = std::max(now_, now);
  Rounds& rounds = jobs_[note.job];
  const Name name{note.session, note.stream};
  if (!rounds.clients.contains(name) && rounds.clients.size() >= kClientsMax) {
    return note.sink->Told({.segment = view.segment.id(), .epoch = view.epoch, .beat = note.beat});
  }
  Client& client = rounds.clients[name];
  Count(rounds, client, -1);
  client.session = note.session;
  client.sink = note.sink;
  client.heard = now;
  client.wish = note.reading.wish;
  if (client.wish <= client.seen) {
    client.first_wish = 0;
  } else if (client.first_wish == 0 || client.wish < client.first_wish) {
    client.first_wish = client.wish;
  }
  switch (note.reading.kind) {
    case wire::Reading::Kind::kNot:
      client.reads = false;
      break;
    case wire::Reading::Kind::kReads:
      // One that was forgotten, or was never known here, stays so until it joins.
      if (client.reads) client.confirmed = std::clamp(note.reading.round, client.confirmed, client.told);
      break;
    case wire::Reading::Kind::kJoins:
      Join(rounds, client, view);
      break;
  }
  Count(rounds, client, 1);
  if (client.confirmed == client.told) client.since.reset();
  wire::Round answer = Of(rounds, client, view);
  if (!client.reads || client.confirmed == client.told) answer.beat = note.beat;
  note.sink->Told(answer);
  Progress(rounds, view);
}

// From here on it hands out nothing that is older than what is committed now: so it has confirmed the present
// round, if that is told.
void SeenRounds::Join(Rounds& rounds, Client& client, const View& view) {
  client.reads = true;
  client.told = client.confirmed = rounds.state == Rounds::State::kBuilt ? rounds.number - 1 : rounds.number;
  client.version = view.committed;
}

void SeenRounds::Advance(const View& view) {
  for (auto& [job, rounds] : jobs_) Progress(rounds, view);
}

void SeenRounds::OnTime(const View& view, absl::Time now) {
  if (!began_.has_value()) began_ = now;
  now_ = std::max(now_, now);
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    Rounds& rounds = job->second;
    std::erase_if(rounds.clients, [&](const auto& entry) {
      const Client& client = entry.second;
      const bool over = client.sink->gone() || now - client.heard > kAsksNoMore;
      return view.segment.FindSession(client.session) == nullptr || (!client.reads && over);
    });
    for (auto& [name, client] : rounds.clients) {
      if (!client.reads) continue;
      if (client.confirmed < client.told && !client.since.has_value()) client.since = now;
      const bool late = client.since.has_value() && now - *client.since > kSilence;
      if (!late && now - client.heard <= kSilence) continue;
      client.reads = false;
      client.since.reset();
      client.sink->Told(Of(rounds, client, view));
    }
    Count(rounds);
    Progress(rounds, view);
    job = rounds.clients.empty() ? jobs_.erase(job) : std::next(job);
  }
}

void SeenRounds::Progress(Rounds& rounds, const View& view) {
  while (true) {
    switch (rounds.state) {
      case Rounds::State::kNone:
        if (!Asked(rounds, view)) return;
        Begin(rounds, view);
        break;
      case Rounds::State::kBuilt:
        if (view.committed < rounds.version) return;
        TellReaders(rounds, view);
        break;
      case Rounds::State::kTold:
        if (now_ - *began_ <= kSilence && !Planted(Bug::kSeenAfterTakeover)) return;
        if (rounds.unconfirmed > 0 && !Planted(Bug::kSeenUnconfirmed)) return;
        End(rounds, view);
        break;
    }
  }
}

void SeenRounds::Count(Rounds& rounds, const Client& client, int by) {
  if (client.first_wish > 0) rounds.wishing += by;
  if (client.reads && client.confirmed < rounds.number) rounds.unconfirmed += by;
}

void SeenRounds::Count(Rounds& rounds) {
  rounds.wishing = rounds.unconfirmed = 0;
  for (const auto& [name, client] : rounds.clients) Count(rounds, client, 1);
}

bool SeenRounds::Asked(const Rounds& rounds, const View& view) const {
  return rounds.wishing > 0 && std::ranges::any_of(rounds.clients, [&](const auto& entry) {
           const Client& client = entry.second;
           return client.first_wish > 0 && AppliedOf(view.segment, client.session) >= client.first_wish;
         });
}

void SeenRounds::Begin(Rounds& rounds, const View& view) {
  rounds.state = Rounds::State::kBuilt;
  ++rounds.number;
  rounds.version = view.segment.version();
  for (auto& [name, client] : rounds.clients) client.own = AppliedOf(view.segment, client.session);
  Count(rounds);
}

void SeenRounds::TellReaders(Rounds& rounds, const View& view) {
  rounds.state = Rounds::State::kTold;
  for (auto& [name, client] : rounds.clients) {
    if (!client.reads) continue;
    client.told = rounds.number;
    client.version = rounds.version;
    client.sink->Told(Of(rounds, client, view));
  }
}

const SeenRounds::Client* SeenRounds::Awaited(const Rounds& rounds) {
  if (rounds.state != Rounds::State::kTold) return nullptr;
  const auto first = std::ranges::find_if(rounds.clients, [&](const auto& entry) {
    return entry.second.reads && entry.second.confirmed < rounds.number;
  });
  return first == rounds.clients.end() ? nullptr : &first->second;
}

void SeenRounds::End(Rounds& rounds, const View& view) {
  rounds.state = Rounds::State::kNone;
  for (auto& [name, client] : rounds.clients) {
    if (client.own <= client.seen) continue;
    client.seen = client.own;
    if (client.first_wish <= client.seen) client.first_wish = client.wish > client.seen ? client.wish : 0;
    if (client.wish > 0) client.sink->Told(Of(rounds, client, view));
  }
  Count(rounds);
}

wire::Round SeenRounds::Of(const Rounds& rounds, const Client& client, const View& view) const {
  wire::Round round{.segment = view.segment.id(),
                    .epoch = view.epoch,
                    .number = client.reads ? client.told : 0,
                    .version = client.version,
                    .seen = client.seen};
  // Only who waits wants to know.
  const Client* awaited = client.first_wish > 0 ? Awaited(rounds) : nullptr;
  if (awaited != nullptr) {
    round.waits_for = awaited->session;
    const Segment::SessionState* session = view.segment.FindSession(awaited->session);
    if (session != nullptr) {
      round.rank_plus_one = RankPlusOne(view.segment, session->job, awaited->session);
    }
  }
  return round;
}

}  // namespace paceline::log
