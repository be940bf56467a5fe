#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libs/history/file_format.h"
#include "tools/verify/client_history.h"
#include "tools/verify/findings.h"
#include "tools/verify/report.h"
#include "tools/verify/segment_log.h"

namespace paceline::verify {

// Proves from the history files of one cluster that no rule of docs/record.md was broken, or finds the
// violations. Takes about 100 bytes of memory for each record at each member. For one thread.
class Verifier {
 public:
  // The whole content of a file; it must live until this returns.
  void AddFile(const std::string& name, std::string_view bytes);

  // Once, after all files.
  Report Finish();

 private:
  // The known state of a segment at this place in a shard's file.
  struct Held {
    bool known = true;  // false: events are missing
    Lsn lsn;
    Epoch epoch;
    Epoch wrote;  // the last epoch that this member was primary of
  };
  struct ShardFile {
    uint32_t file = 0;
    ring::Member self;
    bool identified = false;
    std::map<SegmentId, Held> held;
  };

  void TakeShardEvent(ShardFile& shard, uint64_t offset, const history::Event& event);
  void TakeLogged(ShardFile& shard, Place place, const history::Logged& event);
  void TakeCluster(const history::Identified& event, Place place);
  void TakeEnding(uint32_t file, const history::Reader::Ended& ended);
  SegmentLog& LogOf(SegmentId segment);

  Findings findings_;
  uint64_t cluster_ = 0;
  std::vector<std::unique_ptr<ClientHistory>> clients_;
  std::map<SegmentId, SegmentLog> logs_;
};

}  // namespace paceline::verify
