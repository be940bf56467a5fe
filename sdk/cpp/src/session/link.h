#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/time/time.h"
#include "libs/base/retry.h"
#include "libs/filter/filter.h"
#include "libs/ring/segment_map.h"
#include "libs/world/port.h"
#include "paceline/v1/shard.pb.h"
#include "sdk/cpp/src/session/context.h"

namespace paceline::sdk {

// The connection to one shard for one purpose, over one stream after the other: dials when there is work,
// sends the hello, waits for the welcome, and after a break dials again with growing pauses.
//
//   idle ──work──▶ dialing ──welcome──▶ welcomed
//     ▲               │ broken             │ broken
//     └──no work── backing off ◀───────────┘
//
// Frames sent on a broken stream may or may not have arrived; OnDown tells the subclass to send them again.
//
// More than 15 members: a third of them is what the welcome says, which counts until the stream breaks.
class Link : public std::enable_shared_from_this<Link> {
 public:
  Link(Context& context, world::StreamKind kind, ring::ShardInfo shard);
  virtual ~Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  const ring::ShardInfo& shard() const { return shard_; }

  // Takes the shard's entry in a newer map. Breaks a stream to another address or an earlier start.
  void SetShard(const ring::ShardInfo& shard);

  // There may be something to send.
  void Wake();
  // There soon may be: dials now, once, so that it need not wait for that.
  void DialAhead();
  // Ends the link for good, without OnDown.
  void Shut();

  bool usable() const { return state_ == State::kWelcomed; }
  // Since when the link is, or was last, usable.
  absl::Time usable_since() const { return usable_since_; }
  // "shard-1 at 127.0.0.1:4711: Connection refused", for messages; Name: without its state.
  std::string Describe() const;
  std::string Name() const;

 protected:
  // True: a stream is wanted.
  virtual bool HasWork() const = 0;
  // The next frame after the hello; called only when welcomed. False: there is none.
  virtual bool Next(absl::Cord* frame) = 0;
  // Handles a frame of the shard. Subclasses pass a frame with a welcome to Welcomed.
  virtual void Receive(absl::Cord frame) = 0;
  // A new stream was welcomed.
  virtual void OnUp() = 0;
  // The stream is gone. Everything that is not acknowledged must be sent again.
  virtual void OnDown() = 0;

  void Welcomed(const v1::Welcome& welcome);
  // The shard refused before the welcome. Some refusals end the client; others only this try.
  void RefusedAtHello(const v1::Refusal& refusal);
  // The current stream is gone, or given up; the link dials again.
  void Broken(absl::Status why);
  // See world::StreamPort.
  bool LetsGoOfFrames() const { return port_ != nullptr && port_->LetsGoOfFrames(); }
  // The shard broke the rules of the wire; the client cannot go on.
  void BrokeRules(absl::Status what);

  // From the welcome.
  uint32_t feature_level() const { return feature_level_; }
  uint64_t window_bytes() const { return window_bytes_; }
  uint64_t frame_bytes_max() const { return frame_bytes_max_; }
  // Filters that the shard takes, and may apply to replies; and its bound on the lists of keys it keeps.
  filter::FilterSet filters() const { return filters_; }
  filter::FilterSet reply_filters() const { return reply_filters_; }
  uint64_t key_list_bytes() const { return key_list_bytes_; }
  // Why the last stream broke, or was not welcomed; OK: it was.
  const absl::Status& last_error() const { return last_error_; }

  Context& context_;

 private:
  class Stream;
  enum class State { kIdle, kDialing, kWelcomed, kBackingOff, kShut };

  void Dial();
  void SetPort(uint64_t stream, std::shared_ptr<world::StreamPort> port);
  bool NextFrame(absl::Cord* frame);
  absl::Cord Hello() const;
  // Names what this client may apply, and understands. The shard keeps room for lists of keys if they are
  // named.
  void OfferFilters(v1::Hello& hello) const;
  // OK if the shard that answers is the one that the map names. Otherwise it counts as an address that does
  // not answer.
  absl::Status CheckMeant(const v1::Welcome& welcome) const;
  void EndStream(absl::Status why);
  void BackOff();

  const world::StreamKind kind_;
  ring::ShardInfo shard_;
  State state_ = State::kIdle;
  uint64_t stream_ = 0;  // counts streams: frames from an earlier one are void
  std::shared_ptr<world::StreamPort> port_;
  bool said_hello_ = false;
  Incarnation welcomed_by_;
  uint32_t feature_level_ = 0;
  uint64_t window_bytes_ = 0;
  uint64_t frame_bytes_max_ = 0;
  filter::FilterSet filters_;
  filter::FilterSet reply_filters_;
  uint64_t key_list_bytes_ = 0;
  absl::Time usable_since_ = absl::InfinitePast();
  bool ahead_ = false;  // dialing though there was nothing to send
  Backoff backoff_;
  Timers::Id timer_;  // for the welcome, or for dialing again
  absl::Status last_error_;
};

}  // namespace paceline::sdk
