#include "services/shard/context.h"

#include <algorithm>
#include <optional>

namespace paceline::shard {

Context::Context(ShardOptions options, const world::Clock& clock, Probe& probe, Disk* disk)
    : options_(std::move(options)),
      clock_(clock),
      probe_(probe),
      disk_(disk),
      replies_(std::make_shared<ReplyBudget>(options_.all_replies_bytes_max)) {
  if (options_.helper_thread) helper_ = std::make_unique<Helper>();
  for (int i = 0; i < std::max(options_.executors, 1); ++i) {
    batches_.push_back(std::make_unique<engine::Batch>());
    executors_.push_back(std::make_unique<Executor>(helper_.get()));
    if (disk_ == nullptr) continue;
    executors_.back()->AfterGroup([this, i] { WriteGroup(static_cast<size_t>(i)); });
  }
}

void Context::End() {
  helper_.reset();
  hosts_.clear();
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

SegmentHost& Context::AddHost(const Surroundings& around) {
  const SegmentId id(static_cast<uint32_t>(hosts_.size()));
  return *hosts_.emplace_back(std::make_unique<SegmentHost>(id, around, batches_[ExecutorOf(id)].get()));
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
    for (size_t s = executor; s < hosts_.size(); s += executors_.size()) visit(*hosts_[s]);
  };
  OnEachExecutor(visit_those_of, std::move(done));
}

void Context::WriteGroup(size_t executor) {
  if (batches_[executor]->empty()) return;
  engine::Batch batch = std::exchange(*batches_[executor], engine::Batch());
  if (view()->emptied) return;
  std::vector<std::pair<SegmentHost*, SegmentDisk::Mark>> marks;
  for (size_t s = executor; s < hosts_.size(); s += executors_.size()) {
    if (const auto mark = hosts_[s]->TakeMark()) marks.emplace_back(hosts_[s].get(), *mark);
  }
  if (marks.empty()) return disk_->Write(std::move(batch));
  disk_->Write(std::move(batch), [this, executor, marks = std::move(marks)]() mutable {
    executors_[executor]->Run([marks = std::move(marks)] {
      for (const auto& [host, mark] : marks) host->OnDurable(mark);
    });
  });
}

}  // namespace paceline::shard
