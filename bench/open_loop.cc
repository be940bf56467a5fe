#include "bench/open_loop.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <thread>
#include <utility>

#include "libs/base/status.h"

namespace paceline::bench {
namespace {

using std::chrono::steady_clock;

constexpr int kPushEvery = 10;  // of so many requests one is a push

}  // namespace

std::vector<uint64_t> Load::Keys() {
  std::vector<uint64_t> keys(kBatch);
  for (uint64_t& key : keys) key = world::Uniform(random, rows);
  return keys;
}

Future<void> Load::Push() {
  const std::vector<uint64_t> keys = Keys();
  if (!pushes.empty()) {
    for (const uint64_t key : keys) ++pushes[key];
  }
  return table.PushAsync(keys, std::vector<float>(kBatch * kDim, step));
}

absl::Status Fill(Client& client, Load& load) {
  const std::vector<float> values(Load::kBatch * Load::kDim, load.step);
  std::vector<uint64_t> keys(Load::kBatch);
  for (uint64_t first = 0; first < load.rows; first += Load::kBatch) {
    for (size_t i = 0; i < Load::kBatch; ++i) keys[i] = first + i;
    (void)load.table.PushAsync(keys, values);
  }
  for (uint32_t& pushes : load.pushes) ++pushes;
  return client.Flush();
}

absl::StatusOr<double> Capacity(Load& load, double seconds) {
  constexpr size_t kOutstanding = 32;
  const auto begin = steady_clock::now();
  std::deque<Future<std::vector<float>>> pulls;
  std::deque<Future<void>> pushes;
  size_t sent = 0;
  std::chrono::duration<double> took{};
  while (took.count() < seconds) {
    if (sent++ % kPushEvery == 0) {
      pushes.push_back(load.Push());
    } else {
      pulls.push_back(load.table.PullAsync(load.Keys()));
    }
    if (pulls.size() + pushes.size() < kOutstanding) continue;
    if (pushes.size() > kOutstanding / kPushEvery) {
      ABSL_RETURN_IF_ERROR(std::move(pushes.front()).Get());
      pushes.pop_front();
    } else {
      ABSL_RETURN_IF_ERROR(std::move(pulls.front()).Get().status());
      pulls.pop_front();
    }
    took = steady_clock::now() - begin;
  }
  for (auto& pull : pulls) ABSL_RETURN_IF_ERROR(std::move(pull).Get().status());
  for (auto& push : pushes) ABSL_RETURN_IF_ERROR(std::move(push).Get());
  took = steady_clock::now() - begin;
  return static_cast<double>(sent) / took.count();
}

absl::StatusOr<std::vector<double>> OpenLoop::Run(Load& load, double per_second,
                                                  const std::function<bool()>& stop) {
  const std::chrono::duration<double> every(1 / per_second);
  const auto begin = steady_clock::now();
  uint64_t sent = 0;
  for (; !stop(); ++sent) {
    const auto due = begin + std::chrono::duration_cast<steady_clock::duration>(every * sent);
    std::this_thread::sleep_until(due);  // the arrival of a request, not a wait for anything
    if (sent % kPushEvery == 0) {
      rows_pushed_ += Load::kBatch;
      load.Push().OnReady([this](const absl::Status& status) { Ended(status, std::nullopt); });
    } else {
      load.table.PullAsync(load.Keys()).OnReady([this, due](const auto& result) {
        const std::chrono::duration<double, std::milli> took = steady_clock::now() - due;
        Ended(result.status(), took.count());
      });
    }
  }
  MutexLock lock(&mutex_);
  changed_.Await(&mutex_, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return ended_ == sent; });
  ABSL_RETURN_IF_ERROR(status_);
  return ms_;
}

void OpenLoop::Ended(const absl::Status& status, std::optional<double> ms) {
  MutexLock lock(&mutex_);
  status_.Update(status);
  if (ms.has_value()) ms_.push_back(*ms);
  ++ended_;
  changed_.SignalAll();
}

double Percentile(std::vector<double> values, double of) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[std::min(values.size() - 1, static_cast<size_t>(of * static_cast<double>(values.size())))];
}

}  // namespace paceline::bench
