#include "services/coordinator/metadata/work/work_queues.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/planted.h"
#include "libs/base/status.h"
#include "services/coordinator/metadata/facts/text.h"

namespace paceline::coordinator {
namespace {

// Marks that nothing else takes to the store are written this often: what a coordinator forgets that dies
// just before a worker does is trained twice.
constexpr absl::Duration kMarksEvery = absl::Seconds(5);
// A session that is out of work asks again after this, and later if there are many.
constexpr absl::Duration kAskAgain = absl::Milliseconds(200);
constexpr absl::Duration kAskAgainPerSession = absl::Milliseconds(2);
constexpr absl::Duration kRateOver = absl::Minutes(1);
constexpr absl::Duration kRateStep = absl::Seconds(1);
constexpr size_t kReclaimedAtOnceMax = 64;
constexpr size_t kNamedMax = 3;

uint32_t ToMs(absl::Duration duration) {
  return static_cast<uint32_t>(absl::ToInt64Milliseconds(duration));
}

}  // namespace

size_t WorkQueues::Queue::Outstanding() const {
  size_t items = 0;
  for (const auto& [session, of] : held) items += of.items.size();
  return items;
}

uint64_t WorkQueues::Queue::Oldest(uint64_t beside) const {
  uint64_t oldest = UINT64_MAX;
  for (const auto& [session, of] : held) {
    if (session != beside && !of.items.empty()) oldest = std::min(oldest, of.items.begin()->first);
  }
  return oldest;
}

size_t WorkQueues::Queue::Holders(uint64_t beside) const {
  return static_cast<size_t>(std::ranges::count_if(
      held, [beside](const auto& of) { return of.first != beside && !of.second.items.empty(); }));
}

void WorkQueues::Start() {
  for (const auto& [id, record] : context_.facts.work_queues()) queues_.emplace(id, Queue(record));
  for (const auto& [session, record] : context_.facts.work_held()) {
    for (const WorkHeldRecord::Of& of : record.of()) {
      const auto queue = queues_.find(of.queue());
      if (queue == queues_.end()) continue;
      queue->second.held[session] = {.report = of.report(),
                                     .items = wire::FromItems(queue->second.book.spec(), of.items())};
    }
  }
}

// -- opening --

absl::StatusOr<v1::OpenWorkReply> WorkQueues::Open(const v1::OpenWorkRequest& request) {
  ABSL_ASSIGN_OR_RETURN(const SessionRecord* session, sessions_.FindLive(request.session(), request.token()));
  ABSL_RETURN_IF_ERROR(CheckName("name", request.name(), context_.options.limits.name_bytes));
  ABSL_RETURN_IF_ERROR(wire::CheckWorkSpec(request.spec()));
  const uint32_t job = session->job();
  v1::OpenWorkReply reply;
  for (const auto& [id, queue] : context_.facts.work_queues()) {
    if (queue.job() != job || queue.name() != request.name()) continue;
    if (queue.spec().SerializeAsString() != request.spec().SerializeAsString()) {
      return absl::AlreadyExistsError(absl::StrCat(
          "work queue '", request.name(), "' of ", context_.facts.JobName(job),
          " exists with other work: ", queue.spec().ShortDebugString(),
          ", asked for: ", request.spec().ShortDebugString(), "; open it as it is, or choose another name"));
    }
    reply.set_queue(id);
    return reply;
  }
  ABSL_ASSIGN_OR_RETURN(const uint32_t id, Create(job, request));
  reply.set_queue(id);
  return reply;
}

absl::StatusOr<uint32_t> WorkQueues::Create(uint32_t job, const v1::OpenWorkRequest& request) {
  const size_t limit = context_.options.limits.work_queues;
  const auto of_job = std::ranges::count_if(context_.facts.work_queues(),
                                            [job](const auto& queue) { return queue.second.job() == job; });
  if (static_cast<size_t>(of_job) >= limit) {
    return TooMany(absl::StrCat("work queues of ", context_.facts.JobName(job)), limit,
                   "use the name of one that exists");
  }
  Changes changes;
  changes.counters = context_.facts.counters();
  changes.counters->set_work_queue(changes.counters->work_queue() + 1);
  WorkQueueRecord& record = changes.work_queues.emplace_back();
  record.set_id(changes.counters->work_queue());
  record.set_job(job);
  record.set_name(request.name());
  *record.mutable_spec() = request.spec();
  ABSL_RETURN_IF_ERROR(context_.Commit(changes));
  queues_.emplace(record.id(), Queue(record));
  return record.id();
}

// -- reports --

absl::StatusOr<v1::ReportWorkReply> WorkQueues::Report(const v1::ReportWorkRequest& request) {
  ABSL_ASSIGN_OR_RETURN(const SessionRecord* session, sessions_.FindLive(request.session(), request.token()));
  const WorkQueueRecord* record = context_.facts.FindWorkQueue(request.queue());
  if (record == nullptr || record->job() != session->job()) {
    return absl::NotFoundError(absl::StrCat("queue: ", context_.facts.JobName(session->job()),
                                            " has no work queue ", request.queue(), "; open it"));
  }
  Queue& queue = queues_.at(request.queue());
  const uint64_t who = request.session();
  ABSL_ASSIGN_OR_RETURN(const WorkReport report, ReportOf(queue.book.spec(), request));
  WorkHeld held = queue.held[who];
  if (request.number() <= held.report) return ReplyOf(queue, who);
  held.report = request.number();
  WorkBook book = queue.book;
  const WorkBook::Taken taken = book.Take(report, held);
  const size_t elsewhere = queue.Outstanding() - queue.held[who].items.size();
  // It was asked for what it gives back, so the same report does not bring it again.
  const uint64_t ahead = report.given_back.empty() ? request.ahead() : 0;
  const uint64_t own = held.items.empty() ? UINT64_MAX : held.items.begin()->first;
  const size_t given = book.HandOut(ahead, queue.Holders(/*beside=*/who) + 1, elsewhere + held.items.size(),
                                    held, std::min(own, queue.Oldest(/*beside=*/who)));
  const bool late = context_.now - queue.stored.try_emplace(who, context_.now).first->second >= kMarksEvery;
  if (taken.moved || given > 0 || (taken.told && late)) {
    Changes changes;
    if (taken.moved || given > 0) changes.work_queues.push_back(RecordOf(request.queue(), book));
    changes.work_held.push_back(RecordOf(who, request.queue(), held));
    ABSL_RETURN_IF_ERROR(context_.Commit(changes));
    queue.stored[who] = context_.now;
  }
  queue.book = std::move(book);
  queue.held[who] = std::move(held);
  NoteProgress(queue);
  if (request.waiting() > 0 && queue.held[who].NotBegun() == 0) AskBack(queue, who);
  return ReplyOf(queue, who);
}

v1::ReportWorkReply WorkQueues::ReplyOf(Queue& queue, uint64_t session) const {
  const WorkHeld& held = queue.held[session];
  v1::ReportWorkReply reply;
  reply.set_number(held.report);
  *reply.mutable_held() = wire::ToItems(queue.book.spec(), held.items);
  reply.set_complete(queue.book.ToHandOut() == 0 && queue.Outstanding() == 0);
  if (const auto asked = queue.asked_back.find(session); asked != queue.asked_back.end()) {
    reply.set_give_back(asked->second);
    queue.asked_back.erase(asked);
  }
  reply.set_ask_again_ms(ToMs(kAskAgain + kAskAgainPerSession * static_cast<int64_t>(queue.held.size())));
  if (held.NotBegun() == 0 && !reply.complete()) reply.set_waits_for(WaitsFor(queue, session));
  return reply;
}

WorkHeldRecord WorkQueues::RecordOf(uint64_t session, uint32_t id, const WorkHeld& held) const {
  WorkHeldRecord record;
  record.set_session(session);
  for (const auto& [queue_id, queue] : queues_) {
    const auto it = queue.held.find(session);
    if (it == queue.held.end()) continue;
    const WorkHeld& of_queue = queue_id == id ? held : it->second;
    WorkHeldRecord::Of& of = *record.add_of();
    of.set_queue(queue_id);
    of.set_report(of_queue.report);
    *of.mutable_items() = wire::ToItems(queue.book.spec(), of_queue.items);
  }
  return record;
}

WorkQueueRecord WorkQueues::RecordOf(uint32_t id, const WorkBook& book) const {
  WorkQueueRecord record = *context_.facts.FindWorkQueue(id);
  book.WriteTo(record);
  return record;
}

// Somebody is out of work: who holds the most that is not begun is asked for half of it.
void WorkQueues::AskBack(Queue& queue, uint64_t for_whom) {
  uint64_t most_of = 0;
  size_t most = 0;
  for (const auto& [session, held] : queue.held) {
    const size_t not_begun = held.NotBegun();
    if (session != for_whom && not_begun > most && !HasEnded(session)) {
      most = not_begun;
      most_of = session;
    }
  }
  if (most > 0) queue.asked_back[most_of] = static_cast<uint32_t>((most + 1) / 2);
}

// -- ends --

// From the commit that closes it everywhere on. Until then its updates may still arrive, and would be trained
// twice without being counted.
bool WorkQueues::HasEnded(uint64_t session) const {
  const SessionRecord* record = context_.facts.FindSession(session);
  if (record == nullptr || record->state() == SessionRecord::CLOSED) return true;
  return Planted(Bug::kWorkHandedEarly) && record->state() == SessionRecord::CLOSING;
}

void WorkQueues::OnTime() {
  ReclaimEnded();
  ForgetGone();
}

// A commit that fails is tried again on time.
void WorkQueues::ReclaimEnded() {
  std::set<uint64_t> ended;
  for (const auto& [id, queue] : queues_) {
    for (const auto& [session, held] : queue.held) {
      if (ended.size() < kReclaimedAtOnceMax && HasEnded(session)) ended.insert(session);
    }
  }
  for (const uint64_t session : ended) {
    if (!Reclaim(session).ok()) return;
  }
}

absl::Status WorkQueues::Reclaim(uint64_t session) {
  Changes changes;
  std::map<uint32_t, WorkBook> books;
  for (const auto& [id, queue] : queues_) {
    const auto it = queue.held.find(session);
    if (it == queue.held.end() || it->second.items.empty()) continue;
    WorkBook& book = books.emplace(id, queue.book).first->second;
    book.Reclaim(it->second);
    changes.work_queues.push_back(RecordOf(id, book));
  }
  if (context_.facts.work_held().contains(session)) changes.forgotten_work_held.push_back(session);
  if (!changes.work_queues.empty() || !changes.forgotten_work_held.empty()) {
    ABSL_RETURN_IF_ERROR(context_.Commit(changes));
  }
  for (auto& [id, book] : books) queues_.at(id).book = std::move(book);
  for (auto& [id, queue] : queues_) {
    queue.held.erase(session);
    queue.stored.erase(session);
    queue.asked_back.erase(session);
    NoteProgress(queue);
  }
  return absl::OkStatus();
}

// A job goes when its sessions have; what they held comes back first.
void WorkQueues::ForgetGone() {
  Changes changes;
  for (const auto& [id, record] : context_.facts.work_queues()) {
    const bool gone = context_.facts.FindJob(record.job()) == nullptr && queues_.at(id).held.empty();
    if (gone) changes.forgotten_work_queues.push_back(id);
  }
  if (changes.forgotten_work_queues.empty() || !context_.Commit(changes).ok()) return;
  for (const uint32_t id : changes.forgotten_work_queues) queues_.erase(id);
}

// -- for people --

std::string WorkQueues::WaitsFor(const Queue& queue, uint64_t session) const {
  std::vector<std::string> named;
  size_t holders = 0;
  for (const auto& [id, held] : queue.held) {
    if (held.items.empty() || id == session) continue;
    if (++holders > kNamedMax) continue;
    const SessionRecord* record = context_.facts.FindSession(id);
    std::string who = record == nullptr ? absl::StrCat("session ", id)
                                        : absl::StrCat(record->client(), " (session ", id, ")");
    const size_t begun = held.items.size() - held.NotBegun();
    absl::StrAppend(&who, ", which holds ", held.items.size(), " items, ", begun, " of them begun");
    if (record != nullptr && record->state() == SessionRecord::CLOSING) {
      absl::StrAppend(&who, ", and is being closed: that waits for ", sessions_.Waits(*record));
    } else if (const absl::Duration silence = sessions_.Silence(id); silence > absl::Seconds(2)) {
      absl::StrAppend(&who, ", and has been silent for ", Seconds(silence));
    }
    named.push_back(std::move(who));
  }
  if (named.empty() && !queue.held.at(session).items.empty()) return "its own pushes to be committed";
  if (named.empty()) return "the coordinator, which has taken work back";
  if (holders > kNamedMax) named.push_back(absl::StrCat(holders - kNamedMax, " others"));
  return absl::StrJoin(named, "; ");
}

void WorkQueues::NoteProgress(Queue& queue) {
  auto& progress = queue.progress;
  if (!progress.empty() && context_.now - progress.back().first < kRateStep && progress.size() > 1) {
    progress.back().second = queue.book.examples_done();
    return;
  }
  progress.emplace_back(context_.now, queue.book.examples_done());
  while (context_.now - progress.front().first > kRateOver && progress.size() > 2) progress.pop_front();
}

v1::WorkStatus WorkQueues::StatusOf(uint32_t id, const Queue& queue) const {
  const WorkQueueRecord& record = *context_.facts.FindWorkQueue(id);
  v1::WorkStatus status;
  status.set_name(record.name());
  *status.mutable_spec() = record.spec();
  status.set_examples_done(queue.book.examples_done());
  for (const auto& [session, held] : queue.held) {
    status.set_items_held(status.items_held() + held.items.size());
    status.set_items_begun(status.items_begun() + held.items.size() - held.NotBegun());
    if (!held.items.empty()) status.set_holders(status.holders() + 1);
  }
  status.set_again_begun(queue.book.again_begun());
  status.set_again_perhaps(queue.book.again_perhaps());
  status.set_items_again(queue.book.items_again());
  const uint64_t all = record.spec().examples() * record.spec().passes();
  const uint64_t left = all - queue.book.examples_done();
  if (queue.progress.empty() || left == 0) return status;
  const auto& [since, done] = queue.progress.front();
  const double seconds = absl::ToDoubleSeconds(context_.now - since);
  if (seconds <= 0 || queue.book.examples_done() <= done) return status;
  const double rate = static_cast<double>(queue.book.examples_done() - done) / seconds;
  status.set_examples_per_s(rate);
  status.set_eta_ms(static_cast<uint64_t>(static_cast<double>(left) / rate * 1000));
  return status;
}

std::vector<v1::WorkStatus> WorkQueues::Of(uint32_t job) const {
  std::vector<v1::WorkStatus> all;
  for (const auto& [id, queue] : queues_) {
    if (context_.facts.FindWorkQueue(id)->job() == job) all.push_back(StatusOf(id, queue));
  }
  return all;
}

std::vector<WorkQueues::Gauge> WorkQueues::gauges() const {
  std::vector<Gauge> all;
  for (const auto& [id, queue] : queues_) {
    const uint32_t job = context_.facts.FindWorkQueue(id)->job();
    const JobRecord* record = context_.facts.FindJob(job);
    if (record != nullptr) all.push_back({job, record->name(), StatusOf(id, queue)});
  }
  return all;
}

}  // namespace paceline::coordinator
