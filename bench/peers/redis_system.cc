#include "bench/peers/redis_system.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/peers/processes.h"
#include "libs/base/status.h"
#include "libs/world/real_clock.h"

namespace paceline::bench::peers {
namespace {

constexpr uint64_t kBatch = 10'000;  // of touching and checking
constexpr absl::Duration kStartTimeout = absl::Seconds(20);
constexpr absl::Duration kAskEvery = absl::Milliseconds(20);

class Redis final : public System {
 public:
  Redis(tool::Supervisor& supervisor, const std::filesystem::path& folder, const Data& data, RedisRows rows)
      : processes_(supervisor, folder), data_(data), rows_(rows) {}

  absl::Status Start() {
    ABSL_ASSIGN_OR_RETURN(const int port, FreePort());
    ABSL_ASSIGN_OR_RETURN(
        server_, processes_.Start("redis", {"redis-server", "--bind", "127.0.0.1", "--port",
                                            absl::StrCat(port), "--save", "", "--appendonly", "no",
                                            "--daemonize", "no", "--dir", processes_.folder().string()}));
    const absl::Time deadline = world::MonotonicNow() + kStartTimeout;
    while (true) {
      absl::StatusOr<Connection> connection = Connection::To(port);
      if (connection.ok()) {
        connection_.emplace(*std::move(connection));
        return absl::OkStatus();
      }
      if (world::MonotonicNow() > deadline) return connection.status();
      // Asked again after a while, or an error if it has ended.
      ABSL_RETURN_IF_ERROR(processes_.AwaitReadable(-1, kAskEvery).status());
    }
  }

  std::string name() const override { return rows_ == RedisRows::kBinary ? "Redis" : "Redis INCRBYFLOAT"; }
  bool Takes(const Data&, const Work&) const override { return true; }

  absl::Status Touch() override {
    return ForEachBatch([&](const Work& some) -> absl::Status {
      RedisProtocol protocol(rows_, Op::kPush, some, RowSize(), 1.0f);
      return connection_->Run(protocol, 0, 1, absl::ZeroDuration()).status();
    });
  }

  absl::StatusOr<Turn> Run(Op op, const Work& work, uint64_t first, absl::Duration duration) override {
    // Kept, so that its buffers are not part of what is measured.
    auto [at, made] = protocols_.try_emplace({&work, op}, rows_, op, work, RowSize(), PushedValue());
    return connection_->Run(at->second, first, work.outstanding, duration);
  }

  absl::StatusOr<uint64_t> WrongRows(const std::vector<uint32_t>& pushes) override {
    uint64_t wrong = 0;
    uint64_t at = 0;
    const absl::Status read = ForEachBatch([&](const Work& some) -> absl::Status {
      RedisProtocol protocol(rows_, Op::kPull, some, RowSize(), 0);
      ABSL_RETURN_IF_ERROR(connection_->Run(protocol, 0, 1, absl::ZeroDuration()).status());
      const float* row = protocol.values().data();
      for (; row < protocol.values().data() + protocol.values().size(); row += RowSize(), ++at) {
        const float expected = Expected(pushes[at]);
        if (std::any_of(row, row + RowSize(), [&](float v) { return v != expected; })) ++wrong;
      }
      return absl::OkStatus();
    });
    if (!read.ok()) return read;
    return wrong;
  }

  pid_t client_process() const override { return getpid(); }
  pid_t server_process() const override { return server_; }

 private:
  // A dense tensor is one string.
  size_t RowSize() const { return data_.dense ? data_.rows * data_.dim : data_.dim; }
  float PushedValue() const { return rows_ == RedisRows::kBinary ? 2.0f : 1.0f; }
  float Expected(uint32_t pushes) const {
    if (rows_ == RedisRows::kDecimals) return 1.0f + static_cast<float>(pushes);
    return pushes > 0 ? PushedValue() : 1.0f;
  }

  template <typename Visit>
  absl::Status ForEachBatch(const Visit& visit) {
    if (data_.dense) return visit(Work{});
    for (uint64_t first = 0; first < data_.rows; first += kBatch) {
      Work some{.batch = std::min(kBatch, data_.rows - first), .keys = {}, .in_file = {}};
      some.keys.resize(some.batch);
      std::iota(some.keys.begin(), some.keys.end(), first);
      ABSL_RETURN_IF_ERROR(visit(some));
    }
    return absl::OkStatus();
  }

  Processes processes_;
  const Data data_;
  const RedisRows rows_;
  pid_t server_ = 0;
  std::optional<Connection> connection_;
  std::map<std::pair<const Work*, Op>, RedisProtocol> protocols_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<System>> StartRedis(tool::Supervisor& supervisor,
                                                   const std::filesystem::path& folder, const Data& data,
                                                   RedisRows rows) {
  auto redis = std::make_unique<Redis>(supervisor, folder, data, rows);
  ABSL_RETURN_IF_ERROR(redis->Start());
  return redis;
}

}  // namespace paceline::bench::peers
