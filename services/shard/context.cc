#include "services/shard/context.h"

#include <algorithm>
#include <optional>

#include "libs/base/planted.h"

namespace paceline::shard {

Context::Context(ShardOptions options, const world::Clock& clock, Probe& probe, Disk* disk)
    : options_(std::move(options)),
      clock_(clock),
      probe_(probe),
      disk_(disk),
      streams_(options_.stream_bytes_max, options_.window_bytes),
      replies_(std::make_shared<ReplyBudget>(options_.all_replies_bytes_max)),
      key_lists_(std::make_shared<KeyListRoom>(options_.key_lists_bytes_max)) {
  if (options_.helper_thread) helper_ = std::make_unique<Helper>();
  for (int i = 0; i < std::max(options_.executors, 1); ++i) {
    batches_.push_back(std::make_unique<engine::Batch>());
    watched_.emplace_back();
    executors_.push_back(std::make_unique<Executor>(helper_.get(), &clock_));
    if (disk_ == nullptr) continue;
    executors_.back()->AfterGroup([this, i] { WriteGroup(static_cast<size_t>(i)); });
  }
}

void Context::End() {
  helper_.reset();
  hosts_.clear();
  around_ = Surroundings();
}

std::shared_ptr<const View> Context::view() const {
  MutexLock lock(&mutex_);
  return view_;
}

std::shared_ptr<const View> Context::Publish(const std::function<void(View&)>& change) {
  MutexLock lock(&mutex_);
  View next = *view_;
  change(next);
  view_ = std::make_shared<const View>(std::move(next));
  return view_;
}

void Context::OnWantCatalogue(WantCatalogue want) {
  MutexLock lock(&mutex_);
  want_catalogue_ = std::move(want);
}

bool Context::CatalogueWanted(CatalogueVersion version) {
  WantCatalogue want;
  {
    MutexLock lock(&mutex_);
    want = want_catalogue_;
  }
  return !want || want(version);
}

void Context::MakeRing(size_t segments, const Surroundings& around) {
  around_ = around;
  hosts_.resize(segments);
  is_watched_.resize(segments);
  has_followed_.resize(executors_.size());
}

SegmentHost& Context::AddHost(SegmentId segment) {
  const size_t executor = ExecutorOf(segment);
  hosts_[segment.v] = std::make_unique<SegmentHost>(segment, around_, batches_[executor].get());
  // A member by the first map that it hears of begins empty; this shard knew earlier ones.
  const bool knew = has_followed_[executor] != 0 && !Planted(Bug::kLateHostBeginsEmpty);
  if (knew) hosts_[segment.v]->KnewMaps();
  return *hosts_[segment.v];
}

void Context::MakeHost(SegmentId segment) {
  SegmentHost& host = AddHost(segment);
  const auto now = view();
  if (now->map != nullptr && now->self.incarnation != Incarnation()) host.Configure(*now->map, now->self);
}

void Context::Follow(const std::shared_ptr<const View>& view, Done done) {
  const auto follow = [this, view](size_t executor) {
    for (const SegmentId segment : view->map->SegmentsOf(view->self.shard)) {
      const bool missing = ExecutorOf(segment) == executor && hosts_[segment.v] == nullptr;
      if (missing) AddHost(segment);
    }
    has_followed_[executor] = 1;
    for (size_t s = executor; s < hosts_.size(); s += executors_.size()) {
      // Segments ignore a map older than one they know, so two calls that overtake each other do no harm.
      if (hosts_[s] != nullptr) host(SegmentId(static_cast<uint32_t>(s))).Configure(*view->map, view->self);
    }
  };
  OnEachExecutor(follow, std::move(done));
}

void Context::OnEachExecutor(std::function<void(size_t executor)> work, Done done) {
  struct Round {
    std::function<void(size_t executor)> work;
    Done done;
    std::atomic<size_t> left;
  };
  auto round = std::make_shared<Round>();
  round->work = std::move(work);
  round->done = std::move(done);
  round->left = executors_.size();
  for (size_t e = 0; e < executors_.size(); ++e) {
    executors_[e]->Run([e, round] {
      round->work(e);
      if (round->left.fetch_sub(1) == 1) round->done();
    });
  }
}

void Context::ForEachSegment(Visit visit, Done done) {
  if (view()->map == nullptr) return done();
  const auto visit_those_of = [this, visit = std::move(visit)](size_t executor) {
    for (size_t s = executor; s < hosts_.size(); s += executors_.size()) {
      if (hosts_[s] != nullptr) visit(host(hosts_[s]->id()));
    }
  };
  OnEachExecutor(visit_those_of, std::move(done));
}

void Context::ForEachOnRing(std::function<void(SegmentId, SegmentHost*)> visit, Done done) {
  if (view()->map == nullptr) return done();
  const auto visit_those_of = [this, visit = std::move(visit)](size_t executor) {
    for (size_t s = executor; s < hosts_.size(); s += executors_.size()) {
      const SegmentId segment(static_cast<uint32_t>(s));
      visit(segment, hosts_[s] == nullptr ? nullptr : &host(segment));
    }
  };
  OnEachExecutor(visit_those_of, std::move(done));
}

void Context::OnTime(absl::Time now, Done done) {
  const auto visit = [this, now](SegmentId segment) {
    const log::NextVisit next = hosts_[segment.v]->OnTime(now);
    if (next == log::NextVisit::kSoon) VisitSoon();
    is_watched_[segment.v] = next == log::NextVisit::kNever ? 0 : 1;
    return next == log::NextVisit::kNever;
  };
  OnEachExecutor([this, visit](size_t executor) { std::erase_if(watched_[executor], visit); },
                 std::move(done));
}

bool Context::TakeDue() {
  const absl::Time now = clock_.Now();
  const bool beat = now >= next_beat_;
  if (beat) next_beat_ = log::NextBeat(now);
  return visit_soon_.exchange(false) || streams_.waiting() || beat;
}

void Context::WriteGroup(size_t executor) {
  if (batches_[executor]->empty()) return;
  engine::Batch batch = std::exchange(*batches_[executor], engine::Batch());
  if (view()->emptied) return;
  std::vector<std::pair<SegmentId, SegmentDisk::Mark>> marks;
  const auto take_mark = [&](SegmentId segment) {
    if (const auto mark = hosts_[segment.v]->TakeMark()) marks.emplace_back(segment, *mark);
  };
  for (const engine::Batch::Operation& operation : batch.operations()) {
    if (const auto* entry = std::get_if<engine::LogEntry>(&operation)) take_mark(entry->segment);
    if (const auto* base = std::get_if<engine::Batch::PutBase>(&operation)) take_mark(base->segment);
  }
  if (marks.empty()) return disk_->Write(std::move(batch));
  disk_->Write(std::move(batch), [this, executor, marks = std::move(marks)]() mutable {
    executors_[executor]->Run([this, marks = std::move(marks)] {
      for (const auto& [segment, mark] : marks) host(segment).OnDurable(mark);
    });
  });
}

}  // namespace paceline::shard
