#pragma once

#include <string>
#include <utility>

#include "libs/history/event.h"
#include "services/shard/probe.h"

namespace paceline::shard {

// Tells what happens to a shard's segments to a sink, for its history file (docs/record.md). Thread-safe if
// the sink is.
class HistoryWriter {
 public:
  // The sink must outlive the writer.
  explicit HistoryWriter(history::Sink& sink) : sink_(sink) {}

  void Identified(ring::Member self, uint64_t cluster);
  void Logged(const log::Segment& segment, Epoch epoch, const log::Record& record);
  void Followed(const log::Segment& segment, const log::Record& record);
  void Installed(const log::Segment& segment);

 private:
  history::Sink& sink_;
};

// A probe, `Base`, that also writes a history.
template <class Base>
class HistoryProbe final : public Base {
 public:
  // `arguments` make the base.
  template <class... Arguments>
  explicit HistoryProbe(history::Sink& sink, Arguments&&... arguments)
      : Base(std::forward<Arguments>(arguments)...), writer_(sink) {}

  void Identified(ring::Member self, uint64_t cluster) override {
    Base::Identified(self, cluster);
    writer_.Identified(self, cluster);
  }
  void Logged(const log::Segment& segment, Epoch epoch, const log::Record& record) override {
    Base::Logged(segment, epoch, record);
    writer_.Logged(segment, epoch, record);
  }
  void Followed(const log::Segment& segment, const log::Record& record) override {
    Base::Followed(segment, record);
    writer_.Followed(segment, record);
  }
  void Installed(const log::Segment& segment) override {
    Base::Installed(segment);
    writer_.Installed(segment);
  }

 private:
  HistoryWriter writer_;
};

// Describes the newest record of `segment` for the history. Equal records have equal hashes at every member:
// the hash covers everything that is logged.
history::Logged EventOf(const log::Segment& segment, Epoch epoch, const log::Record& record);

}  // namespace paceline::shard
