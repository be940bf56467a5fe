#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "libs/base/ids.h"
#include "libs/log/change_tracker.h"
#include "libs/log/record.h"
#include "libs/log/segment.h"
#include "libs/wire/packed.h"
#include "paceline/v1/shard.pb.h"

namespace paceline::log {

// What has become of a set of rows of one table in one segment by the records after `after`, up to the
// certificate's version.
struct SetUpdate {
  std::shared_ptr<const TableInfo> table;
  Lsn after;
  wire::Certificate certificate;
  uint64_t set = 0;                 // the last change of the set that it knows of
  bool known = true;                // false: the rows that have changed are not known, and the set is gone
  std::vector<uint64_t> keys = {};  // of rows of the set that have changed, ascending
  std::string values = {};          // theirs: f32, dim a row
  // Others have changed as well, were not told of as such before, and find no room in the budget.
  std::vector<uint64_t> left_out = {};
  std::shared_ptr<const void> room = nullptr;  // for its bytes, until the subscriber has confirmed it
};

// The stream of a subscriber. The segment's owner calls it; an implementation must only take note.
class UpdateSink {
 public:
  virtual ~UpdateSink() = default;
  // Room for an update of so many bytes, as long as somebody holds it. nullptr: there is none before the
  // subscriber has confirmed earlier ones. Then a later update tells more at once.
  virtual std::shared_ptr<const void> Reserve(uint64_t bytes) = 0;
  virtual void Updated(SetUpdate update) = 0;
  // The set is gone, or was never there: of the change `set`, or of all changes.
  virtual void Ended(SegmentId segment, TableId table, v1::Refusal refusal) = 0;
  // True: the stream is gone. Once true it stays true. Must be cheap.
  virtual bool gone() const = 0;
};

// A change of the rows that a subscriber wants to be told of.
struct SetChange {
  SessionId session;
  JobId job;
  std::shared_ptr<const TableInfo> table;
  uint64_t set = 0;        // its number, larger than those before it on its stream
  uint32_t every = 1;      // an update at every so many advances of the min clock
  uint64_t budget = 0;     // bytes of rows that one brings, at least one row; 0: as many as fit
  bool leave = false;      // the keys leave the set; without keys the whole set goes
  absl::string_view keys;  // u64 each
  uint64_t stream = 0;     // the sink's number at this shard
  std::shared_ptr<UpdateSink> sink;
};

// The rows of one segment that clients have read and want to be told of as the min clock advances (ESSP):
// sets of keys, by stream and table. When the job's min clock has advanced far enough, an update of a set is
// *built* from the change log, as of the version v of the segment at that moment, and labelled with the min
// clock of v. It *leaves* once v is committed. Each update begins where the last one ended.
//
// **A budget** bounds what an update brings. Then rows go first that were moved most since they were last
// sent, relative to themselves (ChangeTracker::Moved). The others are *due*: the subscriber is told once that
// such a row is not as new as the update, and is sent it when its turn comes. Moves add up meanwhile.
//
// Soft state of the primary. What a subscriber may take here is bounded: keys, and bytes of updates that it
// has not confirmed. If its room is taken its next update waits, and tells more; if the change log has
// forgotten by then what it should tell, or if the rows that have changed are too many, the subscriber is
// told that its set is gone. It pulls, and begins anew.
//
// Single owner, no locks.
class Subscriptions {
 public:
  // Keys in all sets of a segment: some 20 bytes each, and as many again for rows that are due.
  static constexpr size_t kKeysMax = size_t{1} << 17;
  // Sets in a segment.
  static constexpr size_t kSetsMax = 1024;
  // Bytes of the rows of one update.
  static constexpr uint64_t kBytesMax = uint64_t{1} << 20;

  // The segment as the primary has it.
  struct View {
    const Segment& segment;
    ChangeTracker& tracker;
    Epoch epoch;
    Lsn began;      // of the epoch
    Lsn committed;  // what may leave
  };

  bool empty() const { return sets_.empty(); }
  size_t sets() const { return sets_.size(); }
  size_t keys() const { return keys_; }

  // Changes a set, and makes it if it is new: then its first update tells of the records from now on. Not
  // nullopt: the set is gone, and why. REQUIRES: the session is open, the table is there, and its changes can
  // be told (ChangeTracker::CheckTold).
  std::optional<v1::Refusal> Change(const SetChange& change, const View& view);
  // Builds the updates that are due, and lets those leave that may; true: some did. Call it when a min clock
  // has advanced, when more is committed, and when a subscriber has room again, or is gone. O(sets), beside
  // what the updates cost.
  bool Tell(const View& view);

  // Ends the sets of a table, or all of them, and says why.
  void End(TableId table, SegmentId segment, const v1::Refusal& why);
  void EndAll(SegmentId segment, const v1::Refusal& why);
  // Forgets the sets of streams that are gone.
  void Sweep();

 private:
  // By stream and table. The order in which sets are told must not depend on where streams lie in memory.
  using Name = std::pair<uint64_t, TableId>;
  using DueRows = absl::flat_hash_map<uint64_t, float>;  // rows, and by how much they were moved
  struct Set {
    SessionId session;
    JobId job;
    std::shared_ptr<const TableInfo> table;
    std::shared_ptr<UpdateSink> sink;
    uint32_t every = 1;
    uint64_t set = 0;
    uint64_t budget = 0;
    absl::flat_hash_set<uint64_t> keys = {};
    DueRows due = {};
    Lsn upto = {};                                  // where its last update ended
    Clock told = 0;                                 // the min clock of that
    std::optional<SetUpdate> waits = std::nullopt;  // built, and not committed
    uint64_t lacked = 0;  // bytes that its last update would have taken, if there was no room for it
  };
  using Sets = std::map<Name, Set>;

  // True: the set is gone. Sets `some` if an update has left.
  bool TellOne(Set& set, const View& view, bool* some);
  bool Due(const Set& set, const View& view) const;
  // nullopt: its subscriber has no room.
  std::optional<SetUpdate> Build(Set& set, const View& view);
  // Chooses among the rows that are due, and those that have changed: `keys` of the update. Says what is left
  // out, and returns what is due from then on.
  static DueRows Choose(const Set& set, const View& view, SetUpdate& update);
  // Nobody asks for moves that all sets have been told of.
  void Settle(const View& view) const;
  Sets::iterator Erase(Sets::iterator it);

  Sets sets_;
  size_t keys_ = 0;
};

}  // namespace paceline::log
