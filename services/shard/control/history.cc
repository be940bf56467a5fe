#include "services/shard/control/history.h"

#include <string_view>
#include <variant>
#include <vector>

#include "libs/base/crc32c.h"
#include "libs/base/little_endian.h"
#include "libs/base/varint.h"

namespace paceline::shard {
namespace {

std::string_view View(absl::string_view bytes) {
  return {bytes.data(), bytes.size()};
}

template <class T>
std::string_view BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// Takes a record apart: into the fields of the event and the bytes of its hash.
class Describe {
 public:
  Describe(const log::Segment& segment, history::Logged& event) : segment_(segment), event_(event) {}

  void operator()(const log::OpenTable& r) { Mix({r.table->id.v, r.table->job.v}); }
  void operator()(const log::DropTable& r) { Mix({r.table.v}); }
  void operator()(const log::ChangeRule& r) {
    Mix({r.table->id.v, r.number, table::HashOf(r.rule), r.clock, r.at_once ? uint64_t{1} : 0});
    if (r.bound > 0) Mix({r.bound});
  }
  void operator()(const log::CloseJob& r) {
    Mix({r.job.v});
    for (TableId table : r.tables) Mix({table.v});
  }
  void operator()(const log::OpenSession& r) {
    event_.session = r.session;
    event_.job = r.job;
    Mix({r.session.v, r.job.v, r.closed_floor.v});
  }
  void operator()(const log::Join& r) {
    OfSession(r.session);
    event_.clock = r.start;
    Mix({r.session.v, r.start, r.rank});
  }
  void operator()(const log::Finish& r) {
    OfSession(r.session);
    event_.clock = r.clock;
    Mix({r.session.v, r.clock});
  }
  void operator()(const log::Evict& r) {
    event_.session = r.session;
    event_.clock = r.counts_below;
    Mix({r.session.v, r.counts_below});
    if (r.data_lost) Mix({1});
  }
  void operator()(const log::Advance& r) {
    event_.job = r.job;
    Mix({r.job.v, r.min_clock});
  }
  void operator()(const log::Update& r) {
    OfSession(r.session);
    event_.line = r.line;
    event_.number = r.number;
    event_.clock = r.clock;
    event_.table = r.table;
    event_.count = r.count;
    event_.content = ExtendCrc32c(Crc32c(View(r.keys)), View(r.values));
    Mix({r.session.v, static_cast<uint64_t>(r.line), r.number, r.table.v, r.clock,
         static_cast<uint64_t>(r.form), r.count, r.keys.size(), event_.content});
  }
  void operator()(const log::Fold& r) {
    event_.job = r.job;
    event_.clock = r.clock;
    event_.numbers = r.numbers;
    Mix({r.job.v, r.clock, r.tables.size(), r.numbers.size()});
    for (const log::FoldedRows& rows : r.tables) {
      Mix({rows.table.v, rows.keys.size(), rows.values.size()});
      crc_ = ExtendCrc32c(ExtendCrc32c(crc_, BytesOf(rows.keys)), BytesOf(rows.values));
    }
    for (const auto& [session, number] : r.numbers) Mix({session.v, number});
  }
  void operator()(const log::BeginEpoch& r) { Mix({r.epoch.v}); }
  void operator()(const log::Cut& r) {
    event_.job = r.job;
    event_.clock = r.clock;
    Mix({r.id, r.job.v, r.clock});
  }
  void operator()(const log::Load& r) {
    event_.table = r.table;
    Mix({r.table.v, r.keys.size(), r.rows.size()});
    crc_ = ExtendCrc32c(ExtendCrc32c(crc_, BytesOf(r.keys)), BytesOf(r.rows));
  }
  void operator()(const log::EndLoad& r) {
    event_.job = r.job;
    event_.clock = r.clock;
    Mix({r.id, r.job.v, r.clock});
  }

  void operator()(const log::BeginChange& r) {
    Mix({static_cast<uint64_t>(r.subject.kind), r.subject.id, r.number, r.floor});
  }

  uint32_t hash() const { return crc_; }

 private:
  void OfSession(SessionId session) {
    event_.session = session;
    if (const auto* open = segment_.FindSession(session)) event_.job = open->job;
  }
  void Mix(std::initializer_list<uint64_t> numbers) {
    for (uint64_t number : numbers) {
      char bytes[sizeof(number)];
      StoreU64(number, bytes);
      crc_ = ExtendCrc32c(crc_, {bytes, sizeof(bytes)});
    }
  }

  const log::Segment& segment_;
  history::Logged& event_;
  uint32_t crc_ = 0;
};

}  // namespace

history::Logged EventOf(const log::Segment& segment, Epoch epoch, const log::Record& record) {
  static_assert(std::variant_size_v<log::Record> == static_cast<size_t>(history::RecordKind::kBeginChange));
  history::Logged event{.segment = segment.id(),
                        .epoch = epoch,
                        .lsn = segment.version(),
                        .kind = static_cast<history::RecordKind>(record.index() + 1)};
  Describe describe(segment, event);
  std::visit(describe, record);
  event.hash = describe.hash();
  if (event.job != JobId()) event.min_clock = segment.MinClockOf(event.job);
  return event;
}

void HistoryWriter::Identified(ring::Member self, uint64_t cluster) {
  sink_.Record(history::Identified{.shard = self.shard, .incarnation = self.incarnation, .cluster = cluster});
}

// The shard that logs the beginning of an epoch is its primary.
void HistoryWriter::Logged(const log::Segment& segment, Epoch epoch, const log::Record& record) {
  history::Logged event = EventOf(segment, epoch, record);
  event.primary = true;
  if (event.kind == history::RecordKind::kBeginEpoch) {
    sink_.Record(history::RoleTaken{.segment = segment.id(),
                                    .epoch = epoch,
                                    .role = history::Role::kPrimary,
                                    .lsn = Lsn(segment.version().v - 1)});
  }
  sink_.Record(event);
}

void HistoryWriter::Followed(const log::Segment& segment, const log::Record& record) {
  sink_.Record(EventOf(segment, segment.epoch(), record));
}

void HistoryWriter::Installed(const log::Segment& segment) {
  sink_.Record(
      history::Installed{.segment = segment.id(), .epoch = segment.epoch(), .lsn = segment.version()});
}

}  // namespace paceline::shard
