#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libs/filter/coder.h"
#include "libs/sim/marks.h"
#include "libs/sim/stream.h"
#include "libs/wire/frame.h"
#include "libs/wire/packed.h"
#include "paceline/v1/shard.pb.h"
#include "tests/sim/invariants.h"
#include "tests/sim/verdict.h"

namespace paceline::sim {

// Reads every frame that passes, and reports it to the invariants.
class WireWatch final : public StreamWatcher {
 public:
  // The member whose shard has this host name.
  using MemberOf = std::function<ring::Member(const std::string& host)>;
  // A push frame has been handled by the shard with this host name.
  using OnPushHandled = std::function<void(const std::string& host)>;
  using Trace = std::function<void(const std::string&)>;

  WireWatch(Invariants& invariants, Verdict& verdict, Marks& marks, uint64_t window_bytes, MemberOf member_of,
            OnPushHandled on_push_handled, Trace trace)
      : invariants_(invariants),
        verdict_(verdict),
        marks_(marks),
        window_bytes_(window_bytes),
        member_of_(std::move(member_of)),
        on_push_handled_(std::move(on_push_handled)),
        trace_(std::move(trace)) {}

  // Called with each refusal that a shard sends.
  std::function<void(const v1::Refusal&, SessionId)> on_refusal = [](const v1::Refusal&, SessionId) {};

  void OnSent(const StreamInfo& stream, Side from, const absl::Cord& frame) override;
  void OnArriving(const StreamInfo& stream, Side to, const absl::Cord& frame) override;
  void OnArrived(const StreamInfo& stream, Side to, const absl::Cord& frame) override;

 private:
  struct Asked {
    Clock min_clock = 0;
    std::map<uint32_t, PartNumber> own;  // by segment
  };
  // The frames that have passed on one stream.
  struct Stream {
    SessionId session;
    JobId job;
    // The member that answers. Known from the first answer on: when the last ones leave, the next start of
    // this shard may have begun already.
    std::optional<ring::Member> server;
    // Bytes of frames with parts: after each frame that was sent, what the shard has granted, and what of it
    // the client has heard of.
    std::vector<uint64_t> pushed;
    uint64_t granted = 0;
    uint64_t heard = 0;
    std::map<SegmentAndLine, PartNumber> sent;  // the last number sent
    std::map<uint64_t, Asked> asked;            // by request
    std::shared_ptr<filter::KeyDecoder> keys;   // what its filters have kept; null: nothing yet
  };

  void OnPushSent(Stream& stream, const absl::Cord& frame);
  void OnPullSent(Stream& stream, const absl::Cord& frame);
  // Each frame with filters can be read by whoever has read those before it.
  void ReadKeys(Stream& stream, absl::Span<const uint32_t> filters, v1::KeyForm form, absl::Cord& keys);
  // What the frame counts for where bytes are granted.
  uint64_t WeightOf(Stream& stream, uint64_t bytes, wire::Frame<v1::PushPullRequest> request);
  // `by` sends the frame; if it is null, the frame arrives.
  void OnPushReply(Stream& stream, const absl::Cord& frame, const ring::Member* by);
  void OnSetsSent(Stream& stream, const absl::Cord& frame);
  // `by` sends the frame; if it is null, the frame arrives.
  void OnSetUpdate(const Stream& stream, const absl::Cord& frame, const ring::Member* by);
  void OnPullReplyArriving(const Stream& stream, const absl::Cord& frame);
  void OnReadSent(Stream& stream, uint64_t request, Clock min_clock, const std::string& parts,
                  bool names_own);
  void OnRowsSent(Stream& stream, const ring::Member& by, uint64_t request, const std::string& certificates);
  void OnRowsArriving(const Stream& stream, const std::string& certificates);
  void OnPullReplySent(Stream& stream, const ring::Member& by, const absl::Cord& frame);
  void MarkRefusal(const Stream& stream, const v1::Refusal& refusal, const char* what);
  // Which parts a frame may have, and in which order.
  void CheckPartTable(absl::Span<const wire::PartEntry> parts, bool wants_rows);
  // The client sends a frame with parts: it was granted more than it has sent so far.
  void CheckGranted(const Stream& stream, uint64_t pushed);
  // The shard grants no more ahead of what it has received than a stream may have.
  void CheckGrants(Stream& stream, const v1::PushPullReply& reply);

  Invariants& invariants_;
  Verdict& verdict_;
  Marks& marks_;
  const uint64_t window_bytes_;
  const MemberOf member_of_;
  const OnPushHandled on_push_handled_;
  const Trace trace_;
  std::map<uint64_t, Stream> streams_;
};

}  // namespace paceline::sim
