#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "libs/base/ids.h"
#include "libs/log/segment.h"
#include "libs/wire/packed.h"

namespace paceline::log {

// The stream of a client that reads or pushes under a value bound. The segment's owner calls it; an
// implementation must only take note.
class RoundSink {
 public:
  virtual ~RoundSink() = default;
  virtual void Told(const wire::Round& round) = 0;
  // True: the stream is gone. Once true it stays true. Must be cheap.
  virtual bool gone() const = 0;
};

// What a client says of a segment (wire::Reading), in the order of its stream.
struct ReadingNote {
  SessionId session;
  JobId job;
  wire::Reading reading;
  uint64_t beat = 0;
  uint64_t stream = 0;  // the sink's number at this shard
  std::shared_ptr<RoundSink> sink;
};

// Which updates all readers of a segment have *seen*, for value bounds (VAP; docs/adr): those that no reader
// may still hand out a value without. It finds out by *rounds*, one after the other, and only if somebody
// asks for it. A round is a version of the segment. It is told to the readers once that is committed. A
// reader confirms it, which promises that it hands out nothing older. When each has confirmed it, or was
// forgotten, every update up to that version is seen, and those who asked are told which parts of theirs that
// covers.
//
// **Readers are leased, so nobody waits long for one.** A client hands out values only for 0.8 s after it
// sent the newest message that was answered with its beat, by its own clock; and no beat is answered while
// the client has a round to confirm. So the primary may forget a reader that has said nothing for 1 s, or has
// not confirmed a round 1 s after it was told: by then that client hands out nothing, until it has joined
// again at the version that is committed then. The rates of two clocks differ by less than 10 %.
//
// **A new primary knows no readers.** Those of the primary before it hand out values for at most that long
// after it stopped to answer. So no round ends within 1 s of the first call.
//
// Soft state of the primary; by job, so that no job waits for another's readers. The caller must not call it
// while the primary may not answer: then nobody is answered, and leases run out. Single owner, no locks.
class SeenRounds {
 public:
  static constexpr absl::Duration kSilence = absl::Seconds(1);
  // One that only asks is forgotten after this.
  static constexpr absl::Duration kAsksNoMore = absl::Seconds(10);
  // Clients in a segment and job. Another one is told that it does not count, and tries again.
  static constexpr size_t kClientsMax = 4096;

  // The segment as the primary has it.
  struct View {
    const Segment& segment;
    Epoch epoch;
    Lsn committed;
  };

  bool empty() const { return jobs_.empty(); }

  // Takes note, and answers. REQUIRES: the session is open, in this job.
  void Take(const ReadingNote& note, const View& view, absl::Time now);
  // More is committed, or applied: a round may begin, or be told.
  void Advance(const View& view);
  // Forgets who was silent for too long. Call it regularly from the beginning on.
  void OnTime(const View& view, absl::Time now);

 private:
  struct Client {
    SessionId session;
    std::shared_ptr<RoundSink> sink;
    absl::Time heard;
    bool reads = false;
    uint64_t confirmed = 0;  // the last round that it has confirmed …
    uint64_t told = 0;       // … and was told of
    Lsn version = {};        // of that one
    // Since when it has had a round to confirm, or later: as of the first OnTime after it was told.
    std::optional<absl::Time> since = std::nullopt;
    PartNumber wish = 0;  // as it has said last
    // The smallest that it has said and that is not seen; 0: none. A wish that grows with each push would
    // never be for parts that are applied.
    PartNumber first_wish = 0;
    PartNumber own = 0;   // its parts up to the version of the present round
    PartNumber seen = 0;  // … of the last one that has ended
  };
  // The order in which clients are told: it must not depend on where streams lie in memory.
  using Name = std::pair<SessionId, uint64_t>;  // and the number of its stream
  // Of one job. A round is built, told, and ends; then there is none until somebody asks.
  struct Rounds {
    enum class State { kNone, kBuilt, kTold };
    State state = State::kNone;
    uint64_t number = 1;
    Lsn version;
    std::map<Name, Client> clients;
    // Counted, so that parts and commits that concern nobody need not look at all clients.
    size_t wishing = 0;      // those with a first wish
    size_t unconfirmed = 0;  // readers that have not confirmed this number
  };

  void Progress(Rounds& rounds, const View& view);
  void Begin(Rounds& rounds, const View& view);
  void TellReaders(Rounds& rounds, const View& view);
  void End(Rounds& rounds, const View& view);
  bool Asked(const Rounds& rounds, const View& view) const;
  // Counts the client among those that wish and that are not confirmed, or (-1) no more.
  static void Count(Rounds& rounds, const Client& client, int by);
  // All anew.
  static void Count(Rounds& rounds);
  static const Client* Awaited(const Rounds& rounds);
  wire::Round Of(const Rounds& rounds, const Client& client, const View& view) const;
  void Join(Rounds& rounds, Client& client, const View& view);

  std::map<JobId, Rounds> jobs_;
  std::optional<absl::Time> began_ = std::nullopt;  // the first call
  absl::Time now_ = absl::InfinitePast();           // of the last call that was told it: never too late
};

}  // namespace paceline::log
