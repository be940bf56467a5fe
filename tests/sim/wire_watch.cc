#include "tests/sim/wire_watch.h"

#include "absl/strings/str_cat.h"
#include "libs/wire/frame.h"

namespace paceline::sim {

void WireWatch::OnSent(const StreamInfo& info, Side from, const absl::Cord& frame) {
  Stream& stream = streams_[info.id];
  const bool push = info.kind == world::StreamKind::kPush;
  if (from == Side::kClient) {
    push ? OnPushSent(stream, frame) : OnPullSent(stream, frame);
  } else if (push) {
    OnPushReply(stream, frame, /*sent=*/true);
  } else {
    OnPullReplySent(stream, member_of_(info.server), frame);
  }
}

void WireWatch::OnArriving(const StreamInfo& info, Side to, const absl::Cord& frame) {
  if (to == Side::kClient && info.kind == world::StreamKind::kPush) {
    OnPushReply(streams_[info.id], frame, /*sent=*/false);
  }
}

void WireWatch::OnArrived(const StreamInfo& info, Side to, const absl::Cord&) {
  if (to == Side::kServer && info.kind == world::StreamKind::kPush) on_push_handled_(info.server);
}

void WireWatch::OnPushSent(Stream& stream, const absl::Cord& frame) {
  const auto request = wire::Decode<v1::PushRequest>(frame);
  if (!request.ok()) return verdict_.Violated("Wire", "a push frame that cannot be read");
  if (request->head.has_hello()) {
    stream.session = SessionId(request->head.hello().session());
    return;
  }
  const auto parts = wire::ParseParts(request->head.parts());
  if (!parts.ok()) return verdict_.Violated("Wire", parts.status().ToString());
  for (const wire::PartEntry& part : *parts) {
    PartNumber& sent = stream.sent[part.segment.v];
    if (part.number <= sent) marks_.Hit("a part is sent again on its stream");
    if (part.count == 0) marks_.Hit("an empty part takes a refused number");
    if (part.number <= invariants_.ledger(part.segment).Applied(stream.session)) {
      marks_.Hit("a part is sent again that is applied already");
    }
    sent = part.number;
  }
  std::string text = absl::StrCat("session ", stream.session.v, " pushes");
  for (const wire::PartEntry& part : *parts) absl::StrAppend(&text, " ", part.segment.v, "#", part.number);
  if (request->head.has_tick()) absl::StrAppend(&text, " tick ", request->head.tick().clock());
  if (const auto seals = wire::ParseSeals(request->head.tick().seals()); seals.ok()) {
    for (const wire::Seal& seal : *seals) {
      if (seal.line == Line::kArrival) {
        absl::StrAppend(&text, " ", seal.segment.v, "+", seal.run, "=", seal.number);
      }
    }
  }
  trace_(text);
  if (request->head.has_tick() && !parts->empty()) marks_.Hit("a tick rides on a part");
  stream.unreceived.push_back(frame.size());
  stream.unreceived_bytes += frame.size();
  Bounded(stream);
}

void WireWatch::Bounded(const Stream& stream) {
  if (stream.unreceived_bytes > window_bytes_ / 2) marks_.Hit("a window is half full");
  if (stream.unreceived_bytes <= window_bytes_ || stream.unreceived.size() == 1) return;
  verdict_.Violated("Bounded", absl::StrCat("session ", stream.session.v, ": ", stream.unreceived_bytes,
                                            " bytes under way, the window has ", window_bytes_));
}

void WireWatch::OnPushReply(Stream& stream, const absl::Cord& frame, bool sent) {
  v1::PushReply reply;
  if (!reply.ParseFromString(std::string(frame))) {
    return verdict_.Violated("Wire", "an answer to a push that cannot be read");
  }
  const auto marks = wire::ParseMarks(reply.committed());
  if (!marks.ok()) return verdict_.Violated("Wire", marks.status().ToString());
  for (const wire::Mark& mark : *marks) {
    sent ? invariants_.OnMarkSent(stream.session, mark) : invariants_.OnMarkReceived(stream.session, mark);
  }
  if (sent) {
    for (const v1::Refusal& refusal : reply.refusals()) {
      MarkRefusal(refusal, "push");
      trace_(absl::StrCat("session ", stream.session.v, " is refused: ", refusal.ShortDebugString()));
    }
    for (const v1::TickAck& ack : reply.ticks()) {
      if (!ack.unspoken().empty()) marks_.Hit("a tick does not speak for a segment");
    }
    return;
  }
  for (; stream.received < reply.received() && !stream.unreceived.empty(); ++stream.received) {
    stream.unreceived_bytes -= stream.unreceived.front();
    stream.unreceived.pop_front();
  }
}

void WireWatch::MarkRefusal(const v1::Refusal& refusal, const char* what) {
  marks_.Hit(absl::StrCat("refused: ", what, " ", v1::Refusal::Reason_Name(refusal.reason())));
}

void WireWatch::OnPullSent(Stream& stream, const absl::Cord& frame) {
  const auto request = wire::Decode<v1::PullRequest>(frame);
  if (!request.ok()) return verdict_.Violated("Wire", "a pull frame that cannot be read");
  if (request->head.has_hello()) {
    stream.session = SessionId(request->head.hello().session());
    return;
  }
  const auto parts = wire::ParseParts(request->head.parts());
  if (!parts.ok()) return verdict_.Violated("Wire", parts.status().ToString());
  Asked& asked = stream.asked[request->head.request()];
  asked.min_clock = request->head.min_clock();
  for (const wire::PartEntry& part : *parts) {
    asked.own[part.segment.v] = part.number;
    const SegmentLedger& ledger = invariants_.ledger(part.segment);
    if (ledger.Applied(stream.session) < part.number) marks_.Hit("a read overtakes the reader's own part");
  }
}

void WireWatch::OnPullReplySent(Stream& stream, const ring::Member& by, const absl::Cord& frame) {
  const auto reply = wire::Decode<v1::PullReply>(frame);
  if (!reply.ok()) return verdict_.Violated("Wire", "an answer to a pull that cannot be read");
  for (const v1::Refusal& refusal : reply->head.refusals()) MarkRefusal(refusal, "pull");
  if (!reply->head.waited_for().empty()) marks_.Hit("a read waits for a worker");
  const auto asked = stream.asked.find(reply->head.request());
  if (asked == stream.asked.end()) return;
  const auto certificates = wire::ParseCertificates(reply->head.certificates());
  if (!certificates.ok()) return verdict_.Violated("Wire", certificates.status().ToString());
  for (const wire::Certificate& certificate : *certificates) {
    if (!certificate.served) continue;
    invariants_.OnCertificateSent(by, certificate, asked->second.min_clock,
                                  asked->second.own[certificate.segment.v]);
  }
  stream.asked.erase(asked);
}

}  // namespace paceline::sim
