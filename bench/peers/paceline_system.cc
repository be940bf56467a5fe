#include "bench/peers/paceline_system.h"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/world/real_clock.h"
#include "paceline/client.h"
#include "tools/paceline/data_folder.h"
#include "tools/paceline/local_cluster.h"

namespace paceline::bench::peers {
namespace {

constexpr uint64_t kBatch = 10'000;  // of touching and checking

// Requests of which some are under way: the oldest is waited for when there are enough.
class Window {
 public:
  Window(size_t outstanding, Turn& turn) : outstanding_(outstanding), turn_(turn) {}

  // Room for one more.
  absl::Status Await() { return requests_.size() < outstanding_ ? absl::OkStatus() : AwaitOldest(); }
  void Add(absl::Time began, Future<void> future) { requests_.push_back({began, std::move(future)}); }
  absl::Status AwaitAll() {
    while (!requests_.empty()) ABSL_RETURN_IF_ERROR(AwaitOldest());
    return absl::OkStatus();
  }

 private:
  struct Request {
    absl::Time began;
    Future<void> future;
  };

  absl::Status AwaitOldest() {
    const absl::Status status = requests_.front().future.Get();
    turn_.us.push_back(
        static_cast<float>(absl::ToDoubleMicroseconds(world::MonotonicNow() - requests_.front().began)));
    requests_.pop_front();
    return status;
  }

  const size_t outstanding_;
  Turn& turn_;
  std::deque<Request> requests_;
};

class Ours final : public System {
 public:
  Ours(const Data& data, Kind kind) : data_(data), kind_(kind) {}
  ~Ours() override {
    table_.reset();
    client_.reset();
    if (cluster_.has_value()) cluster_->Stop();
  }

  absl::Status Start(tool::Supervisor& supervisor) {
    ABSL_ASSIGN_OR_RETURN(folder_, tool::DataFolder::Open(""));  // temporary: the shard has no disk
    const std::string sockets = IsNear(kind_) ? (folder_->path() / "sockets").string() : "";
    cluster_.emplace(supervisor, *folder_,
                     tool::LocalClusterOptions{.programs = tool::FolderOfPrograms(), .socket_dir = sockets});
    ABSL_RETURN_IF_ERROR(cluster_->Start());
    ABSL_ASSIGN_OR_RETURN(client_, Client::Connect({.coordinator = cluster_->address(),
                                                    .job = "peers",
                                                    .client_name = "paceline-bench",
                                                    .unacknowledged_bytes_max = UnacknowledgedBytes(),
                                                    .socket_dir = sockets}));
    if (IsRanged(kind_)) {
      ABSL_ASSIGN_OR_RETURN(
          table_,
          client_->OpenOrCreate("rows", Ranged{.rows = data_.rows, .dim = data_.dim, .consistency = Asp{}}));
    } else {
      ABSL_ASSIGN_OR_RETURN(
          table_,
          client_->OpenOrCreate("rows", Sparse{.dim = data_.dim, .rule = Add{}, .consistency = Asp{}}));
    }
    return absl::OkStatus();
  }

  std::string name() const override { return absl::StrCat("ours, ", NameOf(kind_)); }
  bool Takes(const Data& data, const Work&) const override { return IsRanged(kind_) || !data.dense; }

  absl::Status Touch() override {
    return ForEachBatch([&](const std::vector<uint64_t>& keys) {
      return table_->Push(keys, std::vector<float>(keys.size() * data_.dim, 1.0f));
    });
  }

  absl::StatusOr<Turn> Run(Op op, const Work& work, uint64_t first, absl::Duration duration) override {
    const size_t size = work.batch * data_.dim;
    if (ones_.size() != size) {
      ones_.assign(size, 1.0f);
      pulled_.assign(size, 0.0f);
    }
    if (work.outstanding == 1) return OneByOne(op, work, first, duration);
    Turn turn;
    if (op == Op::kPush) {
      ABSL_RETURN_IF_ERROR(Many(turn, work, first, duration, [&](uint64_t i) {
        return data_.dense ? table_->PushRangeAsync(0, ones_) : table_->PushAsync(Keys(work, i), ones_);
      }));
    } else {
      // Each request's result has memory of its own, which is used again once it was awaited.
      ahead_.resize(work.outstanding * size);
      ABSL_RETURN_IF_ERROR(Many(turn, work, first, duration, [&](uint64_t i) {
        const absl::Span<float> out = absl::MakeSpan(ahead_).subspan(i % work.outstanding * size, size);
        return data_.dense ? table_->PullRangeAsync(0, out) : table_->PullAsync(Keys(work, i), out);
      }));
    }
    return turn;
  }

  absl::StatusOr<uint64_t> WrongRows(const std::vector<uint32_t>& pushes) override {
    uint64_t wrong = 0;
    ABSL_RETURN_IF_ERROR(ForEachBatch([&](const std::vector<uint64_t>& keys) -> absl::Status {
      ABSL_ASSIGN_OR_RETURN(const std::vector<float> values, table_->Pull(keys));
      for (size_t i = 0; i < keys.size(); ++i) {
        const auto row = values.begin() + static_cast<ptrdiff_t>(i * data_.dim);
        const float expected = 1.0f + static_cast<float>(pushes[keys[i]]);
        if (std::any_of(row, row + data_.dim, [&](float v) { return v != expected; })) ++wrong;
      }
      return absl::OkStatus();
    }));
    return wrong;
  }

  pid_t client_process() const override { return getpid(); }
  pid_t server_process() const override {
    const tool::Child* shard = cluster_->AnyShard();
    return shard == nullptr ? 0 : shard->process;
  }

 private:
  uint64_t UnacknowledgedBytes() const {
    return std::max<uint64_t>(uint64_t{64} << 20, data_.dense ? 8 * data_.bytes() + (1 << 20) : 0);
  }
  static absl::Span<const uint64_t> Keys(const Work& work, uint64_t i) {
    return {work.keys_of(i), work.batch};
  }

  // As a program that waits for each request: with the functions that block.
  absl::StatusOr<Turn> OneByOne(Op op, const Work& work, uint64_t first, absl::Duration duration) {
    const auto request = [&](uint64_t i) {
      if (data_.dense) {
        return op == Op::kPush ? table_->PushRange(0, ones_) : table_->PullRange(0, absl::MakeSpan(pulled_));
      }
      return op == Op::kPush ? table_->Push(Keys(work, i), ones_)
                             : table_->Pull(Keys(work, i), absl::MakeSpan(pulled_));
    };
    Turn turn;
    const absl::Time start = world::MonotonicNow();
    absl::Time now = start;
    for (uint64_t i = first; i == first || now - start < duration; ++i) {
      const absl::Time began = now;
      ABSL_RETURN_IF_ERROR(request(i));
      now = world::MonotonicNow();
      turn.us.push_back(static_cast<float>(absl::ToDoubleMicroseconds(now - began)));
    }
    turn.seconds = absl::ToDoubleSeconds(now - start);
    return turn;
  }

  template <typename Request>
  static absl::Status Many(Turn& turn, const Work& work, uint64_t first, absl::Duration duration,
                           const Request& request) {
    Window window(work.outstanding, turn);
    const absl::Time start = world::MonotonicNow();
    absl::Time now = start;
    for (uint64_t i = first; i == first || now - start < duration; ++i) {
      ABSL_RETURN_IF_ERROR(window.Await());
      const absl::Time began = world::MonotonicNow();
      window.Add(began, request(i));
      now = world::MonotonicNow();
    }
    ABSL_RETURN_IF_ERROR(window.AwaitAll());
    turn.seconds = absl::ToDoubleSeconds(world::MonotonicNow() - start);
    return absl::OkStatus();
  }

  template <typename Visit>
  absl::Status ForEachBatch(const Visit& visit) {
    for (uint64_t first = 0; first < data_.rows; first += kBatch) {
      std::vector<uint64_t> keys(std::min(kBatch, data_.rows - first));
      std::iota(keys.begin(), keys.end(), first);
      ABSL_RETURN_IF_ERROR(visit(keys));
    }
    return absl::OkStatus();
  }

  const Data data_;
  const Kind kind_;
  std::unique_ptr<tool::DataFolder> folder_;
  std::optional<tool::LocalCluster> cluster_;
  std::unique_ptr<Client> client_;
  std::optional<Table> table_;
  std::vector<float> ones_, pulled_;  // of a request
  std::vector<float> ahead_;          // pulled by several
};

}  // namespace

const char* NameOf(Kind kind) {
  switch (kind) {
    case Kind::kRanged:
      return "ranged";
    case Kind::kSparse:
      return "sparse";
    case Kind::kNearRanged:
      return "near ranged";
    case Kind::kNearSparse:
      break;
  }
  return "near sparse";
}

absl::StatusOr<std::unique_ptr<System>> StartPaceline(tool::Supervisor& supervisor, const Data& data,
                                                      Kind kind) {
  auto ours = std::make_unique<Ours>(data, kind);
  ABSL_RETURN_IF_ERROR(ours->Start(supervisor));
  return ours;
}

}  // namespace paceline::bench::peers
