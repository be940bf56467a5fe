#include "tests/sim/wire_watch.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/filter/filter.h"
#include "libs/wire/frame.h"

namespace paceline::sim {
namespace {

// For decoders whose work is of no interest here.
struct NoClock final : world::Clock {
  absl::Time Now() const override { return absl::UnixEpoch(); }
};
struct NoObserver final : filter::Observer {
  void Filtered(filter::Filter, uint64_t, uint64_t, absl::Duration) override {}
};
const NoClock no_clock;
NoObserver no_observer;

constexpr size_t kFrameBytesMax = size_t{8} << 20;

}  // namespace

void WireWatch::ReadKeys(Stream& stream, absl::Span<const uint32_t> filters, v1::KeyForm form,
                         absl::Cord& keys) {
  const auto applied = filter::AppliedOf(filters, filter::FilterSet::All());
  if (!applied.ok()) return verdict_.Violated("Wire", applied.status().ToString());
  if (stream.keys == nullptr) {
    stream.keys = std::make_shared<filter::KeyDecoder>(no_clock, no_observer);
    stream.keys->Begin(filter::kListBytesMax);
  }
  const bool named = applied->Has(filter::Filter::kKeys) && keys.StartsWith("\x02");
  const absl::Status read =
      stream.keys->Decode(*applied, form == v1::KEY_FORM_KEYS ? 1 : 2, kFrameBytesMax, keys).status();
  if (!read.ok()) return verdict_.Violated("Wire", read.ToString());
  if (named) marks_.Hit("keys are named by their list");
}

uint64_t WireWatch::WeightOf(Stream& stream, uint64_t bytes, wire::Frame<v1::PushPullRequest> request) {
  if (request.head.filters().empty()) return bytes;
  const size_t coded = request.BlobBytes();
  ReadKeys(stream, request.head.filters(), request.head.key_form(), request.keys);
  const auto applied = filter::AppliedOf(request.head.filters(), filter::FilterSet::All());
  if (!applied.ok()) return bytes;
  const absl::Status read =
      filter::DecodeValues(*applied, kFrameBytesMax, request.values, no_clock, no_observer);
  if (!read.ok()) verdict_.Violated("Wire", read.ToString());
  return filter::Weight(bytes, coded, request.BlobBytes());
}

void WireWatch::OnSent(const StreamInfo& info, Side from, const absl::Cord& frame) {
  if (info.kind == world::StreamKind::kReplicate) return;
  Stream& stream = streams_[info.id];
  const bool push = info.kind == world::StreamKind::kPush;
  if (info.kind == world::StreamKind::kSubscribe) {
    if (from == Side::kClient) return OnSetsSent(stream, frame);
    if (!stream.server.has_value()) stream.server = member_of_(info.server);
    return OnSetUpdate(stream, frame, &*stream.server);
  }
  if (from == Side::kClient) {
    push ? OnPushSent(stream, frame) : OnPullSent(stream, frame);
    return;
  }
  if (!stream.server.has_value()) stream.server = member_of_(info.server);
  push ? OnPushReply(stream, frame, &*stream.server) : OnPullReplySent(stream, *stream.server, frame);
}

void WireWatch::OnArriving(const StreamInfo& info, Side to, const absl::Cord& frame) {
  if (to != Side::kClient || info.kind == world::StreamKind::kReplicate) return;
  if (info.kind == world::StreamKind::kPush) {
    OnPushReply(streams_[info.id], frame, /*by=*/nullptr);
  } else if (info.kind == world::StreamKind::kSubscribe) {
    OnSetUpdate(streams_[info.id], frame, /*by=*/nullptr);
  } else {
    OnPullReplyArriving(streams_[info.id], frame);
  }
}

void WireWatch::OnSetsSent(Stream& stream, const absl::Cord& frame) {
  const auto request = wire::Decode<v1::SubscribeRequest>(frame);
  if (!request.ok()) return verdict_.Violated("Wire", "a change of sets that cannot be read");
  if (!request->head.has_hello()) return;
  stream.session = SessionId(request->head.hello().session());
  stream.job = JobId(request->head.hello().job());
}

void WireWatch::OnSetUpdate(const Stream& stream, const absl::Cord& frame, const ring::Member* by) {
  const auto update = wire::Decode<v1::SubscribeUpdate>(frame);
  if (!update.ok()) return verdict_.Violated("Wire", "an update of sets that cannot be read");
  const auto certificates = wire::ParseCertificates(update->head.certificates());
  if (!certificates.ok()) return verdict_.Violated("Wire", certificates.status().ToString());
  if (by == nullptr) return OnRowsArriving(stream, update->head.certificates());
  for (const v1::Refusal& refusal : update->head.refusals()) MarkRefusal(stream, refusal, "set");
  for (const wire::Certificate& certificate : *certificates) {
    invariants_.OnSetUpdateSent(*by, stream.job, certificate);
  }
  if (update->keys.size() > 0) marks_.Hit("a subscriber is told of changed rows");
  if (absl::StrContains(update->head.changes(), "\xff\xff\xff\xff")) {
    marks_.Hit("a subscriber is told that its set is gone");
  }
}

void WireWatch::OnPullReplyArriving(const Stream& stream, const absl::Cord& frame) {
  const auto reply = wire::Decode<v1::PullReply>(frame);
  if (reply.ok()) OnRowsArriving(stream, reply->head.certificates());  // otherwise said when it was sent
}

void WireWatch::OnRowsArriving(const Stream& stream, const std::string& certificates) {
  const std::vector<wire::Certificate> parsed = wire::ParseCertificates(certificates).value();
  for (const wire::Certificate& certificate : parsed) {
    if (certificate.served) invariants_.OnCertificateReceived(stream.session, certificate);
  }
}

void WireWatch::OnArrived(const StreamInfo& info, Side to, const absl::Cord&) {
  if (to == Side::kServer && info.kind == world::StreamKind::kPush) on_push_handled_(info.server);
}

void WireWatch::OnPushSent(Stream& stream, const absl::Cord& frame) {
  const auto request = wire::Decode<v1::PushPullRequest>(frame);
  if (!request.ok()) return verdict_.Violated("Wire", "a push frame that cannot be read");
  if (request->head.has_hello()) {
    stream.session = SessionId(request->head.hello().session());
    stream.job = JobId(request->head.hello().job());
    return;
  }
  const auto parts = wire::ParseParts(request->head.parts());
  if (!parts.ok()) return verdict_.Violated("Wire", parts.status().ToString());
  const auto line = static_cast<Line>(request->head.line());
  CheckPartTable(*parts, request->head.want_reply());
  for (const wire::PartEntry& part : *parts) {
    PartNumber& sent = stream.sent[{part.segment.v, line}];
    if (part.number <= sent) marks_.Hit("a part is sent again on its stream");
    if (part.count == 0) marks_.Hit("an empty part takes a refused number");
    if (part.number <= invariants_.ledger(part.segment).Applied(stream.session, line)) {
      marks_.Hit("a part is sent again that is applied already");
    }
    sent = part.number;
  }
  std::string text = absl::StrCat("session ", stream.session.v, " pushes");
  for (const wire::PartEntry& part : *parts) {
    absl::StrAppend(&text, " ", part.segment.v, line == Line::kArrival ? "#" : "~", part.number);
  }
  if (request->head.has_tick()) absl::StrAppend(&text, " tick ", request->head.tick().clock());
  if (const auto seals = wire::ParseSeals(request->head.tick().seals()); seals.ok()) {
    for (const wire::Seal& seal : *seals) {
      absl::StrAppend(&text, " ", seal.segment.v, "+", seal.run,
                      seal.line == Line::kArrival ? "=" : "~=", seal.number);
    }
  }
  trace_(text);
  if (request->head.has_tick() && !parts->empty()) marks_.Hit("a tick rides on a part");
  if (request->head.want_reply()) {
    OnReadSent(stream, request->head.request(), request->head.min_clock(), request->head.parts(),
               request->head.line() == v1::LINE_ARRIVAL);
  }
  const uint64_t pushed = stream.pushed.empty() ? 0 : stream.pushed.back();
  if (!parts->empty()) CheckGranted(stream, pushed);
  if (parts->empty() && pushed >= stream.heard) marks_.Hit("a tick needs no grant");
  const uint64_t weight = WeightOf(stream, frame.size(), *request);
  stream.pushed.push_back(parts->empty() ? pushed : pushed + weight);
}

void WireWatch::CheckPartTable(absl::Span<const wire::PartEntry> parts, bool wants_rows) {
  if (parts.size() > wire::kFramePartsLeast) verdict_.Violated("Wire", "a frame of too many parts");
  std::map<SegmentId, PartNumber> last;
  for (const wire::PartEntry& part : parts) {
    const auto [before, first] = last.try_emplace(part.segment, part.number);
    if (first) continue;
    marks_.Hit("pushes share a frame");
    if (wants_rows) verdict_.Violated("Wire", "a segment twice in a frame that wants its rows");
    if (part.number != before->second + 1) {
      verdict_.Violated("Wire", absl::StrCat("segment ", part.segment.v, ": part ", part.number,
                                             " behind part ", before->second, " in one frame"));
    }
    before->second = part.number;
  }
}

void WireWatch::CheckGranted(const Stream& stream, uint64_t pushed) {
  if (pushed < stream.heard) return;
  verdict_.Violated("Bounded", absl::StrCat("session ", stream.session.v, " sends more after ", pushed,
                                            " bytes; it was granted ", stream.heard));
}

void WireWatch::CheckGrants(Stream& stream, const v1::PushPullReply& reply) {
  if (reply.received() > stream.pushed.size()) {
    return verdict_.Violated("Wire", absl::StrCat("received: ", reply.received(), " frames; ",
                                                  stream.pushed.size(), " were sent"));
  }
  const uint64_t freed = reply.received() == 0 ? 0 : stream.pushed[reply.received() - 1];
  if (reply.granted() <= freed && !stream.pushed.empty()) marks_.Hit("a grant waits for the disk");
  if (reply.granted() > freed + window_bytes_ || reply.granted() < stream.granted) {
    verdict_.Violated("Bounded", absl::StrCat("session ", stream.session.v, " is granted ", reply.granted(),
                                              " bytes after ", stream.granted, "; ", freed,
                                              " are freed, and the window has ", window_bytes_));
  }
  stream.granted = reply.granted();
}

void WireWatch::OnPushReply(Stream& stream, const absl::Cord& frame, const ring::Member* by) {
  const bool sent = by != nullptr;
  const auto decoded = wire::Decode<v1::PushPullReply>(frame);
  if (!decoded.ok()) return verdict_.Violated("Wire", "an answer to a push that cannot be read");
  const v1::PushPullReply& reply = decoded->head;
  if (reply.request() != 0) {
    for (const v1::Refusal& refusal : reply.read_refusals()) {
      if (sent) MarkRefusal(stream, refusal, "rows");
    }
    sent ? OnRowsSent(stream, *by, reply.request(), reply.certificates())
         : OnRowsArriving(stream, reply.certificates());
  }
  const auto marks = wire::ParseMarks(reply.committed());
  if (!marks.ok()) return verdict_.Violated("Wire", marks.status().ToString());
  for (const wire::Mark& mark : *marks) {
    sent ? invariants_.OnMarkSent(*by, stream.session, mark)
         : invariants_.OnMarkReceived(stream.session, mark);
  }
  if (sent) {
    CheckGrants(stream, reply);
    for (const v1::Refusal& refusal : reply.refusals()) {
      MarkRefusal(stream, refusal, "push");
      trace_(absl::StrCat("session ", stream.session.v, " is refused: ", refusal.ShortDebugString()));
    }
    for (const v1::TickAck& ack : reply.ticks()) {
      if (!ack.unspoken().empty()) marks_.Hit("a tick does not speak for a segment");
    }
    return;
  }
  stream.heard = reply.granted();
}

void WireWatch::MarkRefusal(const Stream& stream, const v1::Refusal& refusal, const char* what) {
  on_refusal(refusal, stream.session);
  const bool ordered = refusal.reason() == v1::Refusal::OUT_OF_ORDER;
  if (ordered && (refusal.expected() == 0 || refusal.expected() >= refusal.number()))
    verdict_.Violated("Wire", absl::StrCat("out of order: ", refusal.ShortDebugString()));
  marks_.Hit(absl::StrCat("refused: ", what, " ", v1::Refusal::Reason_Name(refusal.reason())));
  if (absl::StrContains(refusal.message(), "half of it for clocks beyond")) marks_.Hit("staging is full");
}

void WireWatch::OnPullSent(Stream& stream, const absl::Cord& frame) {
  auto request = wire::Decode<v1::PullRequest>(frame);
  if (!request.ok()) return verdict_.Violated("Wire", "a pull frame that cannot be read");
  if (request->head.has_hello()) {
    stream.session = SessionId(request->head.hello().session());
    stream.job = JobId(request->head.hello().job());
    return;
  }
  const auto parts = wire::ParseParts(request->head.parts());
  if (!parts.ok()) return verdict_.Violated("Wire", parts.status().ToString());
  if (!request->head.key_filters().empty()) {
    ReadKeys(stream, request->head.key_filters(), request->head.key_form(), request->keys);
  }
  OnReadSent(stream, request->head.request(), request->head.min_clock(), request->head.parts(),
             /*names_own=*/true);
  for (const wire::PartEntry& part : *parts) {
    const SegmentLedger& ledger = invariants_.ledger(part.segment);
    if (ledger.Applied(stream.session, Line::kArrival) < part.number)
      marks_.Hit("a read overtakes the reader's own part");
  }
}

void WireWatch::OnReadSent(Stream& stream, uint64_t request, Clock min_clock, const std::string& parts,
                           bool names_own) {
  Asked& asked = stream.asked[request];
  asked.min_clock = min_clock;
  const std::vector<wire::PartEntry> entries = wire::ParseParts(parts).value();
  for (const wire::PartEntry& part : entries) asked.own[part.segment.v] = names_own ? part.number : 0;
}

void WireWatch::OnPullReplySent(Stream& stream, const ring::Member& by, const absl::Cord& frame) {
  const auto reply = wire::Decode<v1::PullReply>(frame);
  if (!reply.ok()) return verdict_.Violated("Wire", "an answer to a pull that cannot be read");
  for (const v1::Refusal& refusal : reply->head.refusals()) MarkRefusal(stream, refusal, "pull");
  if (!reply->head.waited_for().empty()) marks_.Hit("a read waits for a worker");
  OnRowsSent(stream, by, reply->head.request(), reply->head.certificates());
}

void WireWatch::OnRowsSent(Stream& stream, const ring::Member& by, uint64_t request,
                           const std::string& packed) {
  const auto asked = stream.asked.find(request);
  if (asked == stream.asked.end()) return;
  const auto certificates = wire::ParseCertificates(packed);
  if (!certificates.ok()) return verdict_.Violated("Wire", certificates.status().ToString());
  for (const wire::Certificate& certificate : *certificates) {
    if (!certificate.served) continue;
    invariants_.OnCertificateSent(by, stream.job, certificate, asked->second.min_clock,
                                  asked->second.own[certificate.segment.v]);
  }
  stream.asked.erase(asked);
}

}  // namespace paceline::sim
