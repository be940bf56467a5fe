// A push stream's frames that want their rows back.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "services/shard/streams/push_stream.h"

namespace paceline::shard {
namespace {

// Bounds the number of small replies, as for a pull stream.
constexpr size_t kPushPullRepliesMax = 16 * 1024;

}  // namespace

std::shared_ptr<PullOp> PushStream::ReadOf(const Request& request,
                                           const std::vector<wire::PartEntry>& entries) {
  const v1::PushPullRequest& head = request.head;
  if (!WantsRows(head)) return nullptr;
  wire::Frame<v1::PullRequest> read;
  read.head.set_request(head.request());
  read.head.set_table(head.table());
  read.head.set_catalogue_version(head.catalogue_version());
  read.head.set_min_clock(head.min_clock());
  read.head.set_reader_clock_plus_one(head.reader_clock_plus_one());
  read.head.set_key_form(head.key_form());
  read.head.set_priority(head.priority());
  read.head.set_timeout_ms(head.timeout_ms());
  *read.head.mutable_filters() = head.reply_filters();
  for (wire::PartEntry entry : entries) {
    // A read waits for a part of the arrival line only: one that is folded waits for its own reader's tick.
    if (head.line() != v1::LINE_ARRIVAL) entry.number = 0;
    wire::Append(entry, *read.head.mutable_parts());
  }
  read.keys = request.keys;
  {
    MutexLock lock(&mutex_);
    ++reads_;
  }
  auto op = std::make_shared<PullOp>(shared_from_this(), context_, std::move(read), *caller_);
  if (entries.empty()) {
    op->Start(/*alone=*/true, /*notes=*/nullptr);
    return nullptr;
  }
  return op->StartHeld(notes_.get()) ? op : nullptr;
}

void PushStream::FailRead(uint64_t request, v1::Refusal refusal) {
  {
    MutexLock lock(&mutex_);
    ++reads_;
  }
  Fail(request, std::move(refusal));
}

// In the order in which they come: rows that ride with pushes follow the order of these.
void PushStream::Reply(const wire::Frame<v1::PullReply>& reply, uint64_t reserved, uint32_t /*priority*/) {
  std::shared_ptr<world::StreamPort> port;
  bool drowned = false;
  {
    MutexLock lock(&mutex_);
    if (ended()) return;
    --reads_;
    const uint64_t taken = Waits(reserved, reply.head.ByteSizeLong() + reply.values.size());
    waiting_rows_.push_back({.reply = reply, .reserved = taken});
    drowned = waiting_rows_.size() > kPushPullRepliesMax;
    if (drowned) ended_ = true;
    dirty_ = true;
    port = port_;
  }
  if (port == nullptr) return;
  if (drowned) {
    port->Close(absl::ResourceExhaustedError(absl::StrCat(
        "push_pull: ", kPushPullRepliesMax, " replies wait to be read; read replies while you ask")));
  } else {
    port->Kick();
  }
}

void PushStream::AddRows(wire::Frame<v1::PushPullReply>& reply) {
  if (waiting_rows_.empty()) return;
  Rows rows = std::move(waiting_rows_.front());
  waiting_rows_.pop_front();
  GoesOut(rows.reserved);
  v1::PullReply& head = rows.reply.head;
  reply.head.set_request(head.request());
  reply.head.set_certificates(std::move(*head.mutable_certificates()));
  reply.head.mutable_read_refusals()->Swap(head.mutable_refusals());
  reply.head.set_wait_staleness_us(head.wait_staleness_us());
  reply.head.set_wait_queue_us(head.wait_queue_us());
  reply.head.set_waited_for(head.waited_for());
  reply.head.set_wait_apply_us(head.wait_apply_us());
  reply.head.set_wait_replication_us(head.wait_replication_us());
  reply.head.set_waited_for_rank_plus_one(head.waited_for_rank_plus_one());
  *reply.head.mutable_filters() = head.filters();
  reply.values = std::move(rows.reply.values);
}

}  // namespace paceline::shard
