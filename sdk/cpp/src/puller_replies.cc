// What shards answer to pulls: checked, counted, handed over, or asked for again.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/clock/consistency.h"
#include "sdk/cpp/src/puller.h"

namespace paceline::sdk {
namespace {

constexpr absl::Duration kPauseIfUnsaid = absl::Milliseconds(50);

absl::Duration PauseOf(const v1::Refusal& refusal) {
  return refusal.retry_after_ms() == 0 ? kPauseIfUnsaid : absl::Milliseconds(refusal.retry_after_ms());
}

}  // namespace

absl::Status Puller::Check(const PullLink& link, const PullRequest& request, const PullRequest::Asked& asked,
                           const wire::Certificate& certificate) const {
  const PullOp& op = *request.op;
  const auto lost = [&](absl::string_view what, uint64_t from, uint64_t to) {
    return absl::DataLossError(absl::StrCat("segment ", certificate.segment.v, ": ", link.shard().name,
                                            " certifies ", what, " ", to, ", but ", from,
                                            " was certified or committed before: what lies between is lost. "
                                            "Start the job again from its last saved model, or go on "
                                            "with new sessions and accept the loss"));
  };
  if (certificate.min_clock < asked.min_clock)
    return lost("min clock", asked.min_clock, certificate.min_clock);
  const PartNumber own = std::max(asked.own, op.parts[asked.part].own);
  if (certificate.own < own) return lost("this client's part", own, certificate.own);
  if (certificate.min_clock < op.call.min_clock) {
    return absl::InternalError(absl::StrCat(link.Describe(), ": broke the rules of the wire: ", NameOf(op),
                                            " asked for min clock ", op.call.min_clock, " and got ",
                                            certificate.min_clock));
  }
  return absl::OkStatus();
}

void Puller::OnServed(PullLink& link, const PullRequest& request, const PullRequest::Asked& asked,
                      const wire::Certificate& certificate, absl::Cord values, const v1::PullReply& reply) {
  PullOp& op = *request.op;
  PullPart& part = op.parts[asked.part];
  if (absl::Status kept = Check(link, request, asked, certificate); !kept.ok()) return context_.fail(kept);
  Known& known = known_[certificate.segment.v];
  known.min_clock = std::max(known.min_clock, certificate.min_clock);
  known.own = std::max(known.own, certificate.own);

  const Batch::Piece& piece = op.call.batch->pieces[asked.part];
  if (context_.worker) {
    context_.stats.staleness_rows[clock::ObservedStaleness(op.reader, certificate.min_clock)] += piece.rows;
  }
  context_.stats.rows_pulled += piece.rows;
  context_.stats.bytes_pulled += op.call.batch->KeyBytes(piece) + values.size();
  context_.deferred.Run([sink = op.call.sink, batch = op.call.batch, &piece, values = std::move(values)] {
    sink->Rows(piece, values);
  });
  part.done = true;
  if (--op.left > 0) return;
  CountWait(op, part, request, reply);
  End(op, absl::OkStatus());
}

// A pull has waited for the part that came last; where that one was all the time is where the pull was.
void Puller::CountWait(const PullOp& op, const PullPart& part, const PullRequest& request,
                       const v1::PullReply& reply) {
  const absl::Time now = context_.Now();
  absl::Duration rest = now - op.started;
  const auto take = [&rest](absl::Duration wanted) {
    const absl::Duration taken = std::clamp(wanted, absl::ZeroDuration(), rest);
    rest -= taken;
    return absl::ToDoubleSeconds(taken);
  };
  WaitSeconds& wait = context_.stats.wait;
  wait.route += take(part.routing);
  const absl::Duration asked = now - request.sent;
  wait.staleness += take(std::min(asked, absl::Microseconds(reply.wait_staleness_us())));
  wait.queue += take(std::min(asked, absl::Microseconds(reply.wait_queue_us())));
  wait.network += take(rest);
}

void Puller::OnRefused(PullLink& link, const PullRequest& request, const PullRequest::Asked& asked,
                       const v1::Refusal& refusal) {
  const std::shared_ptr<PullOp>& op = request.op;
  PullPart& part = op->parts[asked.part];
  const absl::Time now = context_.Now();
  const std::string message = absl::StrCat(NameOf(*op), ": segment ", request.Segment(asked).v, " on ",
                                           link.shard().name, ": ", refusal.message());
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
  // A shard may park reads for less than this client waits. Then it is asked again.
  if (refusal.reason() == v1::Refusal::DEADLINE && op->deadline - now < absl::Seconds(1)) {
    context_.stats.wait.staleness += absl::ToDoubleSeconds(now - op->started);
    return End(*op, absl::DeadlineExceededError(message));
  }
  part.last_refusal = refusal.message();
  part.routing += now - part.since;
  part.since = now;
  ++context_.stats.retries;
  if (refusal.reason() == v1::Refusal::MOVED &&
      MapVersion(refusal.map_version()) > context_.routes->map.version()) {
    part.held_for_map = MapVersion(refusal.map_version());
    ++part.asking;
    context_.want_map(part.held_for_map);
    return;
  }
  AskAfter(op, asked.part, PauseOf(refusal));
}

void Puller::OnRefusedStream(PullLink& link, const v1::Refusal& refusal) {
  const std::string message = absl::StrCat(link.Describe(), ": ", refusal.message());
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
