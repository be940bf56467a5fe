#pragma once

#include <cstdint>
#include <vector>

#include "libs/base/ids.h"
#include "libs/wire/packed.h"

namespace paceline::sdk {

// What some rows are as of. Rows that came in one answer share one.
struct Stamp {
  SegmentId segment;
  uint32_t holders = 0;
  Epoch epoch;  // with `version`: the version that the rows were read at
  Lsn version;
  Clock min_clock = 0;
  PartNumber own = 0;  // the client's parts of the arrival line that the read covered
};

// Stamps by small numbers, each as long as somebody holds it. kNone is always there, and as of nothing.
class Stamps {
 public:
  static constexpr uint32_t kNone = 0;

  // What reads want to know of a stamp.
  struct Judged {
    uint64_t good_in = 0;  // the last judging that found it good
    Clock min_clock = 0;
  };
  static constexpr uint64_t kBytes = sizeof(Stamp) + sizeof(Judged) + sizeof(uint32_t);

  Stamps() : stamps_(1), judged_(1) {}

  // Held by the caller.
  uint32_t Make(const wire::Certificate& certificate) {
    if (free_.empty()) {
      free_.push_back(static_cast<uint32_t>(stamps_.size()));
      stamps_.emplace_back();
      judged_.emplace_back();
    }
    const uint32_t stamp = free_.back();
    free_.pop_back();
    stamps_[stamp] = {.segment = certificate.segment,
                      .holders = 1,
                      .epoch = certificate.epoch,
                      .version = certificate.version,
                      .min_clock = certificate.min_clock,
                      .own = certificate.own};
    judged_[stamp] = {.good_in = 0, .min_clock = certificate.min_clock};
    return stamp;
  }
  void Hold(uint32_t stamp) { ++stamps_[stamp].holders; }
  void Release(uint32_t stamp) {
    if (stamp != kNone && --stamps_[stamp].holders == 0) free_.push_back(stamp);
  }

  const Stamp& operator[](uint32_t stamp) const { return stamps_[stamp]; }
  // Of those that are held.
  uint64_t bytes() const { return (stamps_.size() - 1 - free_.size()) * kBytes; }

  const Judged& judged(uint32_t stamp) const { return judged_[stamp]; }
  uint64_t NewJudging() { return ++judgings_; }
  void NoteGood(uint32_t stamp, uint64_t judging) { judged_[stamp].good_in = judging; }

 private:
  std::vector<Stamp> stamps_;
  std::vector<Judged> judged_;  // beside the stamps, so that what is read often lies close together
  std::vector<uint32_t> free_;
  uint64_t judgings_ = 0;
};

}  // namespace paceline::sdk
