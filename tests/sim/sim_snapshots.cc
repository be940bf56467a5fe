#include "tests/sim/sim_snapshots.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/ring/hash.h"

namespace paceline::sim {
namespace {

constexpr Latency kTakes = {.shortest = absl::Microseconds(100),
                            .usual = absl::Milliseconds(2),
                            .slow = 0.02,
                            .slowest = absl::Milliseconds(60)};
constexpr absl::string_view kManifest = "manifest.json";

}  // namespace

// -- the share --

class SnapshotShare::NewFile final : public snapshot::NewFile {
 public:
  NewFile(SnapshotShare& share, std::string folder, std::string file, std::unique_ptr<snapshot::NewFile> to)
      : share_(share), folder_(std::move(folder)), file_(std::move(file)), to_(std::move(to)) {}
  absl::Status Append(absl::string_view bytes) override {
    ABSL_RETURN_IF_ERROR(share_.Reach(folder_));
    return to_->Append(bytes);
  }
  absl::Status Commit() override {
    absl::Status reached = share_.Reach(folder_);
    if (!reached.ok() && world::Chance(share_.random_, 0.5)) return reached;
    absl::Status committed = to_->Commit();
    if (committed.ok() && file_ == kManifest) share_.on_complete(folder_);
    return reached.ok() ? committed : reached;
  }

 private:
  SnapshotShare& share_;
  const std::string folder_;
  const std::string file_;
  const std::unique_ptr<snapshot::NewFile> to_;
};

class SnapshotShare::Files final : public snapshot::Files {
 public:
  explicit Files(SnapshotShare& share) : share_(share) {}
  absl::Status MakeFolder(const std::string& folder) override {
    ABSL_RETURN_IF_ERROR(share_.Reach(folder));
    share_.on_begun(folder);
    return share_.contents_.MakeFolder(folder);
  }
  absl::StatusOr<std::unique_ptr<snapshot::NewFile>> Create(const std::string& folder,
                                                            const std::string& file) override {
    ABSL_RETURN_IF_ERROR(share_.Reach(folder));
    ABSL_ASSIGN_OR_RETURN(std::unique_ptr<snapshot::NewFile> to, share_.contents_.Create(folder, file));
    return std::make_unique<NewFile>(share_, folder, file, std::move(to));
  }
  absl::StatusOr<std::unique_ptr<snapshot::Source>> Open(const std::string& folder,
                                                         const std::string& file) override {
    ABSL_RETURN_IF_ERROR(share_.Reach(folder));
    return share_.contents_.Open(folder, file);
  }
  absl::StatusOr<std::vector<std::string>> Folders() override {
    ABSL_RETURN_IF_ERROR(share_.Reach(""));
    return share_.contents_.Folders();
  }
  absl::Status Remove(const std::string& folder, const std::string& file) override {
    ABSL_RETURN_IF_ERROR(share_.Reach(folder));
    return share_.contents_.Remove(folder, file);
  }
  absl::Status RemoveFolder(const std::string& folder) override {
    ABSL_RETURN_IF_ERROR(share_.Reach(folder));
    return share_.contents_.RemoveFolder(folder);
  }

 private:
  SnapshotShare& share_;
};

SnapshotShare::SnapshotShare(uint64_t seed, Scheduler& scheduler)
    : scheduler_(scheduler),
      random_(ring::Mix64(/*seed=*/84, seed)),
      files_(std::make_unique<Files>(*this)) {}

SnapshotShare::~SnapshotShare() = default;

snapshot::Files& SnapshotShare::files() {
  return *files_;
}

absl::Duration SnapshotShare::Takes() {
  static const Host kNobody;
  return kTakes.Draw(random_, kNobody, kNobody, scheduler_.Now());
}

absl::Status SnapshotShare::Reach(const std::string& folder) {
  if (!failing()) return absl::OkStatus();
  in_doubt_.insert(folder);
  return absl::UnavailableError(absl::StrCat(folder, ": input/output error"));
}

void SnapshotShare::OnTakerGone() {
  for (const auto& [folder, files] : contents_.folders) in_doubt_.insert(folder);
}

// -- work on it --

void SnapshotWork::Add(Step steps) {
  if (dead_) return;
  waiting_.push_back(std::move(steps));
  Kick();
}

void SnapshotWork::Kick() {
  if (dead_ || under_way_.has_value() || waiting_.empty()) return;
  under_way_ = std::move(waiting_.front());
  waiting_.pop_front();
  scheduler_.After(share_.Takes(), [this] { Go(); });
}

void SnapshotWork::Go() {
  if (dead_) return;
  if (host_.Paused(scheduler_.Now())) return scheduler_.At(host_.paused_until, [this] { Go(); });
  if ((*under_way_)(share_.files())) return scheduler_.After(share_.Takes(), [this] { Go(); });
  under_way_.reset();
  Kick();
}

void SnapshotWork::Die() {
  dead_ = true;
  waiting_.clear();
  under_way_.reset();
}

void SimSnapshotRunner::Run(Task task, absl::Duration delay) {
  auto once = [task = std::move(task)](snapshot::Files& files) mutable {
    task(files);
    return false;
  };
  if (delay <= absl::ZeroDuration()) return work_.Add(std::move(once));
  scheduler_.After(delay, [this, once = std::move(once)]() mutable { work_.Add(std::move(once)); });
}

// The process may die between the deed and its answer.
void SimSnapshotDesk::Run(std::function<void(snapshot::Files&)> task, std::function<void()> done) {
  work_.Add(
      [this, task = std::move(task), done = std::move(done), ran = false](snapshot::Files& files) mutable {
        if (!std::exchange(ran, true)) {
          task(files);
          return true;
        }
        done();
        visited_();
        return false;
      });
}

}  // namespace paceline::sim
