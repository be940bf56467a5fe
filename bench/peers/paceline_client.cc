#include "bench/peers/paceline_client.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <utility>

#include "libs/base/status.h"
#include "libs/world/real_clock.h"

namespace paceline::bench::peers {
namespace {

constexpr uint64_t kBatch = 10'000;  // of touching and checking

// Requests of which some are under way: the oldest is waited for when there are enough.
class Window {
 public:
  Window(size_t outstanding, Turn& turn) : outstanding_(outstanding), turn_(turn) {}
  // After an error others are still under way, and write to memory that is used again.
  ~Window() {
    for (Request& request : requests_) request.future.Get().IgnoreError();
  }
  Window(const Window&) = delete;

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

absl::Span<const uint64_t> KeysOf(const Work& work, uint64_t request) {
  return {work.keys_of(request), work.batch};
}

uint64_t UnacknowledgedBytes(const Data& data) {
  return std::max<uint64_t>(uint64_t{64} << 20, data.dense ? 8 * data.bytes() + (1 << 20) : 0);
}

template <typename Request>
absl::Status Many(Turn& turn, const Work& work, uint64_t first, absl::Duration duration,
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

absl::StatusOr<std::unique_ptr<PacelineClient>> PacelineClient::Connect(const std::string& coordinator,
                                                                        const std::string& socket_dir,
                                                                        const Data& data, Kind kind) {
  std::unique_ptr<PacelineClient> made(new PacelineClient(data));
  ABSL_ASSIGN_OR_RETURN(made->client_, Client::Connect({.coordinator = coordinator,
                                                        .job = "peers",
                                                        .client_name = "paceline-bench",
                                                        .unacknowledged_bytes_max = UnacknowledgedBytes(data),
                                                        .socket_dir = socket_dir}));
  if (IsRanged(kind)) {
    ABSL_ASSIGN_OR_RETURN(made->table_,
                          made->client_->OpenOrCreate(
                              "rows", Ranged{.rows = data.rows, .dim = data.dim, .consistency = Asp{}}));
  } else {
    ABSL_ASSIGN_OR_RETURN(
        made->table_,
        made->client_->OpenOrCreate("rows", Sparse{.dim = data.dim, .rule = Add{}, .consistency = Asp{}}));
  }
  return made;
}

template <typename Visit>
absl::Status PacelineClient::ForEachBatch(const Visit& visit) {
  for (uint64_t first = 0; first < data_.rows; first += kBatch) {
    std::vector<uint64_t> keys(std::min(kBatch, data_.rows - first));
    std::iota(keys.begin(), keys.end(), first);
    ABSL_RETURN_IF_ERROR(visit(keys));
  }
  return absl::OkStatus();
}

absl::Status PacelineClient::Touch() {
  return ForEachBatch([&](const std::vector<uint64_t>& keys) {
    return table_->Push(keys, std::vector<float>(keys.size() * data_.dim, 1.0f));
  });
}

absl::StatusOr<Turn> PacelineClient::Run(Op op, const Work& work, uint64_t first, absl::Duration duration) {
  const size_t size = work.batch * data_.dim;
  if (ones_.size() != size) {
    ones_.assign(size, 1.0f);
    pulled_.assign(size, 0.0f);
  }
  if (work.outstanding == 1) return OneByOne(op, work, first, duration);
  Turn turn;
  if (op == Op::kPush) {
    ABSL_RETURN_IF_ERROR(Many(turn, work, first, duration, [&](uint64_t i) {
      return data_.dense ? table_->PushRangeAsync(0, ones_) : table_->PushAsync(KeysOf(work, i), ones_);
    }));
  } else {
    // Each request's result has memory of its own, which is used again once it was awaited.
    ahead_.resize(work.outstanding * size);
    ABSL_RETURN_IF_ERROR(Many(turn, work, first, duration, [&](uint64_t i) {
      const absl::Span<float> out = absl::MakeSpan(ahead_).subspan(i % work.outstanding * size, size);
      return data_.dense ? table_->PullRangeAsync(0, out) : table_->PullAsync(KeysOf(work, i), out);
    }));
  }
  return turn;
}

absl::StatusOr<uint64_t> PacelineClient::WrongRows(const std::vector<uint32_t>& pushes) {
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

absl::StatusOr<Turn> PacelineClient::OneByOne(Op op, const Work& work, uint64_t first,
                                              absl::Duration duration) {
  const auto request = [&](uint64_t i) {
    if (data_.dense) {
      return op == Op::kPush ? table_->PushRange(0, ones_) : table_->PullRange(0, absl::MakeSpan(pulled_));
    }
    return op == Op::kPush ? table_->Push(KeysOf(work, i), ones_)
                           : table_->Pull(KeysOf(work, i), absl::MakeSpan(pulled_));
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

}  // namespace paceline::bench::peers
