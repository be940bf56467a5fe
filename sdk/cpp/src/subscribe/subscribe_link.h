#pragma once

#include <cstdint>
#include <set>

#include "libs/wire/frame.h"
#include "paceline/v1/shard.pb.h"
#include "sdk/cpp/src/session/link.h"

namespace paceline::sdk {

class SubscribeLink;

// What the subscribe streams have to say, and what they hear.
class SubscribeListener {
 public:
  virtual ~SubscribeListener() = default;
  virtual bool HasChange(const SubscribeLink& link) const = 0;
  // Fills in the next change of sets at the link's shard, and adds their segments to `segments`. False: there
  // is none.
  virtual bool TakeChange(const SubscribeLink& link, wire::Frame<v1::SubscribeRequest>& request,
                          std::set<SegmentId>& segments) = 0;
  // Not OK: the shard broke the rules of the wire.
  virtual absl::Status OnUpdate(const SubscribeLink& link,
                                const wire::Frame<v1::SubscribeUpdate>& update) = 0;
  // The stream is gone, and with it the sets of these segments.
  virtual void OnSetsLost(const SubscribeLink& link, const std::set<SegmentId>& segments) = 0;

  // -- value bounds --
  virtual bool HasToSay(const SubscribeLink& link) const = 0;
  // False: there is nothing.
  virtual bool TakeToSay(const SubscribeLink& link, v1::SubscribeRequest& request) = 0;
  virtual void OnStreamLost(const SubscribeLink& link) = 0;
};

// The subscribe stream to one shard: changes of sets go out, updates come in and are confirmed. The sets die
// with the stream. What concerns value bounds goes with them.
class SubscribeLink final : public Link {
 public:
  SubscribeLink(Context& context, SubscribeListener& listener, ring::ShardInfo shard);

 protected:
  bool HasWork() const override;
  bool Next(absl::Cord* frame) override;
  void Receive(absl::Cord frame) override;
  void OnUp() override {}
  void OnDown() override;

 private:
  SubscribeListener& listener_;
  std::set<SegmentId> segments_;  // that may have sets on this stream
  uint64_t received_ = 0;         // the number of the last update
  uint64_t confirmed_ = 0;
  Incarnation does_not_serve_;  // a start of the shard that knows no such stream
};

}  // namespace paceline::sdk
