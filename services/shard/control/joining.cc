#include "services/shard/control/joining.h"

#include <utility>

#include "services/shard/disk/folder.h"

namespace paceline::shard {
namespace {

bool Same(const v1::Stamp& a, const v1::Stamp& b) {
  return a.count() == b.count() && a.random() == b.random();
}

}  // namespace

Joining::Joining(v1::JoinClusterRequest join) : request_(std::move(join)) {
  if (request_.has_folder()) Ask();
}

void Joining::Ask() {
  step_ = Step::kAsk;
  request_.set_ask(true);
}

engine::Batch Joining::Stamps() const {
  engine::Batch batch;
  batch.Add(StampsNote(request_.folder()));
  return batch;
}

void Joining::OnWritten() {
  step_ = Step::kJoin;
  request_.set_ask(false);
}

absl::Status Joining::OnReply(const absl::StatusOr<v1::JoinClusterReply>& reply) {
  if (absl::IsAborted(reply.status()) && request_.has_folder()) Ask();
  if (!reply.ok()) return reply.status();
  // A coordinator of an older release knows no stamps and takes every start that asks.
  if (reply->incarnation() != 0) {
    step_ = Step::kJoined;
  } else if (step_ == Step::kAsk) {
    OnMayJoin(*reply);
  }
  return absl::OkStatus();
}

void Joining::OnMayJoin(const v1::JoinClusterReply& reply) {
  v1::DataFolder& folder = *request_.mutable_folder();
  const bool owned = folder.cluster() != 0;
  // A start has written it before: one that ended before the store had its stamp, or this one, which was told
  // to ask again.
  const bool mine = folder.newest().random() == request_.nonce();
  if ((owned || mine) && Same(reply.stamp(), folder.previous()) &&
      !Same(folder.previous(), folder.newest())) {
    return OnWritten();
  }
  *folder.mutable_previous() = reply.stamp();
  folder.mutable_newest()->set_count(reply.stamp().count() + 1);
  folder.mutable_newest()->set_random(request_.nonce());
  step_ = Step::kWrite;
}

}  // namespace paceline::shard
