// Handles shards' answers to pulls: checks and counts them, hands them over, or asks again.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/little_endian.h"
#include "libs/base/text.h"
#include "libs/clock/consistency.h"
#include "sdk/cpp/src/bound/value_bounds.h"
#include "sdk/cpp/src/pull/puller.h"
#include "sdk/cpp/src/session/refusal_pause.h"

namespace paceline::sdk {
namespace {

std::optional<uint32_t> RankOf(const v1::Refusal& refusal) {
  if (refusal.waits_for_rank_plus_one() == 0) return std::nullopt;
  return refusal.waits_for_rank_plus_one() - 1;
}

const v1::Refusal* FindRefusal(const v1::PullReply& reply, SegmentId segment) {
  for (const v1::Refusal& refusal : reply.refusals()) {
    if (refusal.segment() == segment.v) return &refusal;
  }
  return reply.refusals_size() == 1 ? &reply.refusals(0) : nullptr;
}

// The number of rows of its i-th part that have changed, as a reply states it.
uint32_t Told(const v1::PullReply& reply, size_t i) {
  return LoadU32(reply.changes().data() + i * sizeof(uint32_t));
}

// How many rows of its i-th part, of `piece`, the reply has.
uint64_t RowsOf(const v1::PullReply& reply, bool changes, const Batch::Piece& piece, size_t i) {
  if (!changes) return piece.rows;
  return Told(reply, i) == wire::kChangesUnknown ? 0 : Told(reply, i);
}

// True: every part has an answer, and there are as many values as the answers need.
bool Fits(const wire::Frame<v1::PullReply>& reply, const PullRequest& request,
          const std::vector<wire::Certificate>& certificates) {
  const bool changes = request.op->call.changes;
  if (changes && reply.head.changes().size() != certificates.size() * sizeof(uint32_t)) return false;
  const size_t row_bytes = request.op->call.batch->RowBytes();
  uint64_t rows = 0;
  for (size_t i = 0; i < certificates.size(); ++i) {
    const Batch::Piece& piece = request.op->call.batch->pieces[request.parts[i].part];
    if (certificates[i].segment != piece.segment) return false;
    if (certificates[i].served) {
      if (RowsOf(reply.head, changes, piece, i) > piece.rows) return false;
      rows += RowsOf(reply.head, changes, piece, i);
    } else if (FindRefusal(reply.head, piece.segment) == nullptr) {
      return false;
    }
  }
  if (reply.head.changed().size() != (changes ? rows * sizeof(uint64_t) : 0)) return false;
  return rows * row_bytes == reply.values.size();
}

}  // namespace

absl::Status Puller::OnReply(Link& link, const PullRequest& request,
                             const wire::Frame<v1::PullReply>& reply) {
  const auto certificates = wire::ParseCertificates(reply.head.certificates());
  if (!certificates.ok()) return certificates.status();
  const bool refused = certificates->empty() && reply.head.refusals_size() > 0;  // as a whole
  if (!refused && certificates->size() != request.parts.size()) {
    return absl::InternalError(
        absl::StrCat("certificates: ", certificates->size(), " for ", request.parts.size(), " parts"));
  }
  if (request.op->ended) return absl::OkStatus();
  if (!refused && !Fits(reply, request, *certificates)) {
    return absl::InternalError("a reply whose certificates, values and refusals do not fit the request");
  }
  const std::shared_ptr<const Batch> batch = request.op->call.batch;  // what is handed out may end the pull
  const bool changes = request.op->call.changes;
  Handed handed;
  uint64_t row = 0;
  for (size_t i = 0; i < request.parts.size(); ++i) {
    const PullRequest::Asked& asked = request.parts[i];
    const Batch::Piece& piece = batch->pieces[asked.part];
    const bool served = !refused && (*certificates)[i].served;
    const uint64_t rows = served ? RowsOf(reply.head, changes, piece, i) : 0;
    if (!request.Live(asked)) {
      // Asked anew meanwhile.
    } else if (served) {
      Content content{.at = row * batch->RowBytes(), .values = {}};
      const PullOp& op = *request.op;
      if (changes || op.call.cached || op.leased || op.call.reducing != nullptr) {
        content.values = reply.values.Subcord(content.at, rows * batch->RowBytes());
      }
      if (changes && Told(reply.head, i) != wire::kChangesUnknown) {
        content.changes = static_cast<uint32_t>(rows);
        content.changed =
            absl::string_view(reply.head.changed()).substr(row * sizeof(uint64_t), rows * sizeof(uint64_t));
      }
      OnServed(link, request, asked, (*certificates)[i], content, reply, handed);
    } else {
      OnRefused(link, request, asked,
                refused ? reply.head.refusals(0) : *FindRefusal(reply.head, piece.segment));
    }
    row += rows;
  }
  return absl::OkStatus();
}

absl::Status Puller::Check(const Link& link, const PullRequest& request, const PullRequest::Asked& asked,
                           const wire::Certificate& certificate) const {
  const PullOp& op = *request.op;
  const auto lost = [&](absl::string_view what, uint64_t from, uint64_t to) {
    return absl::DataLossError(absl::StrCat("segment ", certificate.segment.v, ": ", link.shard().name,
                                            " certifies ", what, " ", to, ", but ", from,
                                            " was certified or committed before: updates between are lost. "
                                            "Start the job again from its last saved model, or go on "
                                            "with new sessions and accept the loss"));
  };
  if (certificate.min_clock < asked.min_clock)
    return lost("min clock", asked.min_clock, certificate.min_clock);
  PartNumber own = std::max(asked.own, op.parts[asked.part].own);
  if (certificate.epoch == asked.epoch) own = std::max(own, asked.applied);
  if (certificate.own < own) return lost("this client's part", own, certificate.own);
  if (certificate.min_clock < op.call.min_clock) {
    return absl::InternalError(absl::StrCat(link.Describe(), ": broke the rules of the wire: ", NameOf(op),
                                            " asked for min clock ", op.call.min_clock, " and got ",
                                            certificate.min_clock));
  }
  if (op.call.exact && certificate.min_clock > op.call.min_clock) {
    return absl::InternalError(absl::StrCat(link.Describe(), ": broke the rules of the wire: ", NameOf(op),
                                            " at clock ", op.call.min_clock, " got values of min clock ",
                                            certificate.min_clock,
                                            ", though this worker has not ticked past ", op.call.min_clock));
  }
  return absl::OkStatus();
}

void Puller::OnServed(Link& link, const PullRequest& request, const PullRequest::Asked& asked,
                      const wire::Certificate& certificate, const Content& content,
                      const wire::Frame<v1::PullReply>& reply, Handed& handed) {
  PullOp& op = *request.op;
  PullPart& part = op.parts[asked.part];
  if (absl::Status kept = Check(link, request, asked, certificate); !kept.ok()) return context_.fail(kept);
  Known& known = known_[certificate.segment.v];
  known.min_clock = std::max(known.min_clock, certificate.min_clock);
  if (certificate.epoch > known.epoch) known = {known.min_clock, certificate.epoch, certificate.own};
  if (certificate.epoch == known.epoch) known.own = std::max(known.own, certificate.own);
  newest_min_clock_ = std::max(newest_min_clock_, certificate.min_clock);

  const Batch::Piece& piece = op.call.batch->pieces[asked.part];
  context_.cache.Learn(certificate);
  if (op.call.changes) {
    context_.history.Learn(certificate);
    TakeChanges(op, piece, certificate, content);
  } else if (op.call.reducing != nullptr) {
    const absl::StatusOr<bool> more = TakeSlice(request, asked, certificate, content.values);
    if (!more.ok()) return context_.fail(more.status());
    if (*more) return Ask(request.op, {asked.part});
  } else if (op.leased && !(op.by_piece && IsFit(certificate))) {
    Hold(op, asked.part, certificate, content.values, request.rides);
  } else {
    context_.history.Certified(op.call.read, certificate, piece.rows);
    TakeRows(op, piece, certificate, content, reply.values, request.rides, handed);
  }
  part.done = true;
  if (--op.left > 0) return;
  Waited waited = WaitedFor(link, op, part, request, reply.head);
  if (op.leased) return HandOut(request.op, std::move(waited));
  Count(waited);
  End(op, absl::OkStatus(), std::move(waited));
}

void Puller::TakeRows(const PullOp& op, const Batch::Piece& piece, const wire::Certificate& certificate,
                      const Content& content, const absl::Cord& values, bool rides, Handed& handed) {
  // Another reader may have opened the table since, who wants its rows as they are.
  if (op.call.cached && (!op.call.rounded || context_.MayKeepRounded(*op.call.table))) {
    context_.cache.OnServed(*op.call.table, *op.call.batch, piece, certificate, content.values);
  }
  if (context_.worker) {
    context_.stats.staleness_rows[clock::ObservedStaleness(op.reader, certificate.min_clock)] += piece.rows;
  }
  context_.stats.rows_pulled += piece.rows;
  context_.stats.bytes_pulled +=
      (rides ? 0 : op.call.batch->KeyBytes(piece)) + op.call.batch->ValueBytes(piece);
  if (handed == nullptr) {  // before the sink is told that the pull has ended
    handed = std::make_shared<std::vector<Stretch>>();
    context_.deferred.Run([sink = op.call.sink, batch = op.call.batch, pieces = handed, values] {
      sink->Rows(*pieces, values);
    });
  }
  handed->push_back({.piece = &piece, .at = content.at});
}

absl::StatusOr<bool> Puller::TakeSlice(const PullRequest& request, const PullRequest::Asked& asked,
                                       const wire::Certificate& certificate, const absl::Cord& values) {
  PullOp& op = *request.op;
  const absl::StatusOr<bool> last = op.call.reducing->Take(asked.part, certificate, values);
  if (!last.ok()) {
    return absl::InternalError(absl::StrCat("segment ", certificate.segment.v,
                                            ": the answer breaks the rules of the wire: ", NameOf(op), ": ",
                                            last.status().message()));
  }
  context_.history.Certified(op.call.read, certificate, 1);
  context_.stats.bytes_pulled += op.call.batch->KeyBytes(op.call.batch->pieces[asked.part]) + values.size();
  op.parts[asked.part].since = context_.Now();  // what comes next is not time without a shard
  op.parts[asked.part].refused = 0;
  return !*last;
}

void Puller::TakeChanges(const PullOp& op, const Batch::Piece& piece, const wire::Certificate& certificate,
                         const Content& content) {
  const Lsn since(LoadU64(op.call.batch->Keys(piece).data()));
  context_.cache.OnChanges(*op.call.table, certificate, since, content.changes, content.changed,
                           content.values);
  context_.stats.rows_refreshed += content.changes.value_or(0);
  context_.stats.bytes_pulled +=
      op.call.batch->KeyBytes(piece) + content.changed.size() + content.values.size();
}

bool Puller::IsFit(const wire::Certificate& certificate) const {
  return context_.bounds->Judge(certificate) == ReadingLeases::Verdict::kFit;
}

void Puller::Hold(PullOp& op, uint32_t part, const wire::Certificate& certificate, absl::Cord values,
                  bool rides) {
  Drop(op, part);
  op.parts[part].held = {.certificate = certificate, .values = std::move(values), .rides = rides};
  context_.bounds->Hold(certificate.segment);
}

void Puller::Drop(PullOp& op, uint32_t part) {
  std::optional<PullPart::Held>& held = op.parts[part].held;
  if (!held.has_value()) return;
  const SegmentId segment = held->certificate.segment;
  held.reset();
  context_.bounds->Release(segment);
}

void Puller::HandOut(const std::shared_ptr<PullOp>& op, std::optional<Waited> waited) {
  if (waited.has_value()) op->waited = std::move(waited);
  std::vector<uint32_t> fit, older;
  bool waits = op->left > 0;
  for (uint32_t i = 0; i < op->parts.size(); ++i) {
    if (!op->parts[i].held.has_value()) continue;
    const ReadingLeases::Verdict verdict = context_.bounds->Judge(op->parts[i].held->certificate);
    waits |= verdict == ReadingLeases::Verdict::kWaits;
    if (verdict == ReadingLeases::Verdict::kFit) fit.push_back(i);
    if (verdict == ReadingLeases::Verdict::kOlder) older.push_back(i);
  }
  op->by_piece |= !older.empty();
  if (op->by_piece || !waits) TakeHeld(*op, fit);
  for (const uint32_t i : older) {
    op->parts[i].done = false;
    op->parts[i].since = context_.Now();
    ++op->left;
    Drop(*op, i);
  }
  context_.stats.retries += older.size();
  if (waits || !older.empty()) {
    // While the pull waits, its segments must not be left.
    for (const Batch::Piece& piece : op->call.batch->pieces) context_.bounds->Want(piece.segment);
    return Ask(op, older);
  }
  // What passed since its last part came, it waited to be a reader.
  Waited whole = op->waited.value_or(Waited());
  whole.causes[WaitCause::kNetwork] += context_.Now() - op->started - whole.causes.Total();
  Count(whole);
  End(*op, absl::OkStatus(), std::move(whole));
}

void Puller::TakeHeld(PullOp& op, const std::vector<uint32_t>& parts) {
  absl::Cord values;
  for (const uint32_t i : parts) values.Append(op.parts[i].held->values);
  Handed handed;
  size_t at = 0;
  for (const uint32_t i : parts) {
    const PullPart::Held& held = *op.parts[i].held;
    const Batch::Piece& piece = op.call.batch->pieces[i];
    const size_t bytes = held.values.size();
    context_.history.Certified(op.call.read, held.certificate, piece.rows);
    TakeRows(op, piece, held.certificate, {.at = at, .values = held.values}, values, held.rides, handed);
    at += bytes;
    Drop(op, i);
  }
}

void Puller::OnReadable() {
  std::vector<std::shared_ptr<PullOp>> ready;
  for (const auto& [id, op] : ops_) {
    if (op->leased && (op->left == 0 || op->by_piece)) ready.push_back(op);
  }
  for (const std::shared_ptr<PullOp>& op : ready) {
    if (!op->ended) HandOut(op);
  }
}

// A pull has waited for the part that came last, so the causes of that part's wait are the causes of the
// pull's.
Waited Puller::WaitedFor(const Link& link, const PullOp& op, const PullPart& part, const PullRequest& request,
                         const v1::PullReply& reply) const {
  const absl::Time now = context_.Now();
  const absl::Duration asked = now - request.sent;
  const auto said = [&](uint64_t us) {
    return std::min(asked, absl::Microseconds(std::min<uint64_t>(us, INT64_MAX)));
  };
  WaitedBuilder built(now - op.started);
  built.Take(WaitCause::kRoute, part.routing);
  built.Take(WaitCause::kStaleness, part.parked + said(reply.wait_staleness_us()));
  const uint64_t others = reply.wait_apply_us() + reply.wait_replication_us();
  built.Take(WaitCause::kApply, said(reply.wait_apply_us()));
  built.Take(WaitCause::kReplication, said(reply.wait_replication_us()));
  built.Take(WaitCause::kQueue, said(reply.wait_queue_us() - std::min(others, reply.wait_queue_us())));
  built.TakeRest(WaitCause::kNetwork);
  built.waited.shard = link.shard().id;
  if (reply.waited_for_rank_plus_one() > 0) {
    built.waited.for_rank = reply.waited_for_rank_plus_one() - 1;
  } else if (part.parked > absl::ZeroDuration()) {
    built.waited.for_rank = part.parked_for;
  }
  return std::move(built.waited);
}

void Puller::Count(const Waited& waited) {
  const auto seconds = [&](WaitCause cause) { return absl::ToDoubleSeconds(waited.causes[cause]); };
  WaitSeconds& wait = context_.stats.wait;
  wait.route += seconds(WaitCause::kRoute);
  wait.staleness += seconds(WaitCause::kStaleness);
  // `queue` of the older sums is all that was no staleness at the shard.
  wait.queue += seconds(WaitCause::kApply) + seconds(WaitCause::kReplication) + seconds(WaitCause::kQueue);
  wait.network += seconds(WaitCause::kNetwork);
}

void Puller::OnRefused(Link& link, const PullRequest& request, const PullRequest::Asked& asked,
                       const v1::Refusal& refusal) {
  const std::shared_ptr<PullOp>& op = request.op;
  PullPart& part = op->parts[asked.part];
  const absl::Time now = context_.Now();
  const std::string message = absl::StrCat(NameOf(*op), ": segment ", request.Segment(asked).v, " on ",
                                           link.shard().name, ": ", Escaped(refusal.message()));
  switch (refusal.reason()) {
    case v1::Refusal::FENCED:
    case v1::Refusal::MALFORMED:
    case v1::Refusal::DATA_LOSS:
      return OnRefusedStream(link, refusal);
    case v1::Refusal::INVALID:
      return End(*op, absl::InvalidArgumentError(message));
    case v1::Refusal::UNIMPLEMENTED:
      return End(*op, absl::UnimplementedError(message));
    default:
      break;
  }
  const bool lacks_own = refusal.reason() == v1::Refusal::DEADLINE && refusal.expected() != 0;
  // The mark at the time of the request: a later one may be younger than the refusal.
  if (lacks_own && refusal.expected() <= asked.own) {
    return context_.fail(absl::DataLossError(absl::StrCat(
        "segment ", request.Segment(asked).v, ": ", link.shard().name, " expects part ", refusal.expected(),
        " of this session, but parts up to ", asked.own, " were committed: parts ", refusal.expected(),
        " to ", asked.own,
        " are lost. Start the job again from its last saved model, or go on with new sessions and accept the "
        "loss")));
  }
  // A shard may park reads for less time than this client waits. Then the client asks again.
  if (refusal.reason() == v1::Refusal::DEADLINE && !lacks_own && op->deadline - now < absl::Seconds(1)) {
    WaitedBuilder built(now - op->started);
    context_.stats.wait.staleness += built.TakeRest(WaitCause::kStaleness);
    built.waited.for_rank = RankOf(refusal);
    return End(*op, absl::DeadlineExceededError(message), std::move(built.waited));
  }
  part.last_refusal = Escaped(refusal.message());
  const bool parked = refusal.reason() == v1::Refusal::DEADLINE;
  (parked ? part.parked : part.routing) += now - part.since;
  if (parked) part.parked_for = RankOf(refusal);
  part.since = now;
  if (!parked) ++context_.stats.retries;
  if (refusal.reason() == v1::Refusal::MOVED &&
      MapVersion(refusal.map_version()) > context_.routes->map.version()) {
    part.held_for_map = MapVersion(refusal.map_version());
    ++part.asking;
    context_.want_map(part.held_for_map);
    return;
  }
  AskAfter(op, asked.part, PauseAfter(refusal, parked ? 0 : part.refused++));
}

void Puller::OnRefusedStream(Link& link, const v1::Refusal& refusal) {
  const std::string message = absl::StrCat(link.Name(), ": ", Escaped(refusal.message()));
  switch (refusal.reason()) {
    case v1::Refusal::FENCED:
      return context_.fail(
          absl::AbortedError(absl::StrCat("session ", context_.session.v, " of job '", context_.job_name,
                                          "' is over: ", message, "; connect again")));
    case v1::Refusal::MALFORMED:
      return context_.fail(absl::InternalError(message));
    case v1::Refusal::DATA_LOSS:
      return context_.fail(absl::DataLossError(absl::StrCat("segment ", refusal.segment(), ": ", message)));
    default:
      return;  // says nothing about anything that was asked
  }
}

}  // namespace paceline::sdk
