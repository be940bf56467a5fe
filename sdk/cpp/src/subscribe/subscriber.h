#pragma once

#include <map>
#include <memory>
#include <set>

#include "sdk/cpp/src/session/context.h"
#include "sdk/cpp/src/subscribe/subscribe_link.h"

namespace paceline::sdk {

// Keeps shards informed of the rows that the cache has of tables under ESSP, and the cache of what shards
// tell of them. What it loses, the cache pulls. It also carries what ValueBounds has to say, and hears.
class Subscriber final : public SubscribeListener {
 public:
  explicit Subscriber(Context& context) : context_(context) {}

  // Rows of the table are to be told of.
  void Follow(const std::shared_ptr<const TableInfo>& table) { tables_.try_emplace(table->id, table); }
  // The last call of a visit to the core: the cache may have changes of sets.
  void Leave();
  // context.routes is newer than at the last call.
  void OnMap();
  void Fail();

  // SubscribeListener:
  bool HasChange(const SubscribeLink& link) const override;
  bool TakeChange(const SubscribeLink& link, wire::Frame<v1::SubscribeRequest>& request,
                  std::set<SegmentId>& segments) override;
  absl::Status OnUpdate(const SubscribeLink& link, const wire::Frame<v1::SubscribeUpdate>& update) override;
  void OnSetsLost(const SubscribeLink& link, const std::set<SegmentId>& segments) override;
  bool HasToSay(const SubscribeLink& link) const override;
  bool TakeToSay(const SubscribeLink& link, v1::SubscribeRequest& request) override;
  void OnStreamLost(const SubscribeLink& link) override;

 private:
  bool IsPrimary(const SubscribeLink& link, SegmentId segment) const {
    return context_.routes->map.Primary(segment).shard == link.shard().id;
  }
  void OnRefused(const v1::SubscribeUpdate& update, const v1::Refusal& refusal);
  void EndSets(SegmentId segment);
  void WakeLinkOf(SegmentId segment);
  absl::Status OnRounds(const SubscribeLink& link, absl::string_view packed);

  Context& context_;
  std::map<TableId, std::shared_ptr<const TableInfo>> tables_;
  std::map<ShardId, std::shared_ptr<SubscribeLink>> links_;
  std::shared_ptr<const Routes> routed_by_;
};

}  // namespace paceline::sdk
