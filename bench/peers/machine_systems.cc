#include "bench/peers/machine_systems.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/grpc_limit.h"
#include "bench/peers/echo.h"
#include "bench/peers/pipeline.h"
#include "libs/base/status.h"
#include "libs/world/real_clock.h"

namespace paceline::bench::peers {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(20);

class RawTcp final : public System {
 public:
  RawTcp(std::shared_ptr<EchoServer> server, Connection connection, const Data& data)
      : server_(std::move(server)), connection_(std::move(connection)), data_(data) {}

  std::string name() const override { return "raw TCP"; }
  bool Takes(const Data&, const Work&) const override { return true; }
  absl::Status Touch() override { return absl::OkStatus(); }
  absl::StatusOr<Turn> Run(Op op, const Work& work, uint64_t first, absl::Duration duration) override {
    // Kept, so that its buffers are not part of what is measured.
    auto [at, made] = protocols_.try_emplace({&work, op}, op, data_, work.batch);
    return connection_.Run(at->second, first, work.outstanding, duration);
  }
  absl::StatusOr<uint64_t> WrongRows(const std::vector<uint32_t>&) override { return 0; }
  pid_t client_process() const override { return getpid(); }
  pid_t server_process() const override { return server_->process; }

 private:
  const std::shared_ptr<EchoServer> server_;
  Connection connection_;
  const Data data_;
  std::map<std::pair<const Work*, Op>, EchoProtocol> protocols_;
};

class GrpcPingPong final : public System {
 public:
  GrpcPingPong(std::shared_ptr<EchoServer> server, std::unique_ptr<BareStream> stream)
      : server_(std::move(server)), stream_(std::move(stream)) {}

  std::string name() const override { return "bare gRPC ping-pong"; }
  bool Takes(const Data& data, const Work& work) const override {
    return !data.dense && work.batch == 1 && work.outstanding == 1;
  }
  absl::Status Touch() override { return absl::OkStatus(); }
  absl::StatusOr<Turn> Run(Op, const Work&, uint64_t, absl::Duration duration) override {
    Turn turn;
    ABSL_ASSIGN_OR_RETURN(turn.us, stream_->PingPong(duration));
    turn.seconds = 1e-6 * std::accumulate(turn.us.begin(), turn.us.end(), 0.0);
    return turn;
  }
  absl::StatusOr<uint64_t> WrongRows(const std::vector<uint32_t>&) override { return 0; }
  pid_t client_process() const override { return getpid(); }
  pid_t server_process() const override { return server_->process; }

 private:
  const std::shared_ptr<EchoServer> server_;
  const std::unique_ptr<BareStream> stream_;
};

class Memcpy final : public System {
 public:
  explicit Memcpy(const Data& data) : data_(data) {}

  std::string name() const override { return "memcpy"; }
  bool Takes(const Data&, const Work& work) const override { return work.outstanding == 1; }
  absl::Status Touch() override {
    rows_.assign(data_.rows * data_.dim, 1.0f);
    return absl::OkStatus();
  }

  absl::StatusOr<Turn> Run(Op op, const Work& work, uint64_t first, absl::Duration duration) override {
    values_.resize((data_.dense ? data_.rows : work.batch) * data_.dim, 1.0f);
    Turn turn;
    const absl::Time start = world::MonotonicNow();
    absl::Time now = start;
    for (uint64_t i = first; i == first || now - start < duration; ++i) {
      const absl::Time began = now;
      if (data_.dense) {
        Copy(op, rows_.data(), values_.data(), rows_.size());
      } else {
        const uint64_t* keys = work.keys_of(i);
        for (size_t k = 0; k < work.batch; ++k) {
          Copy(op, rows_.data() + keys[k] * data_.dim, values_.data() + k * data_.dim, data_.dim);
        }
      }
      now = world::MonotonicNow();
      turn.us.push_back(static_cast<float>(absl::ToDoubleMicroseconds(now - began)));
    }
    turn.seconds = absl::ToDoubleSeconds(now - start);
    return turn;
  }
  // It copies, and so leaves what it has pushed.
  absl::StatusOr<uint64_t> WrongRows(const std::vector<uint32_t>&) override {
    return std::ranges::count_if(rows_, [](float v) { return v != 1.0f; });
  }
  pid_t client_process() const override { return getpid(); }
  pid_t server_process() const override { return 0; }

 private:
  static void Copy(Op op, float* row, float* value, size_t dim) {
    if (op == Op::kPush) {
      std::memcpy(row, value, dim * sizeof(float));
    } else {
      std::memcpy(value, row, dim * sizeof(float));
    }
  }

  const Data data_;
  std::vector<float> rows_;
  std::vector<float> values_;
};

}  // namespace

absl::Status EchoServer::Start() {
  ABSL_ASSIGN_OR_RETURN(const std::unique_ptr<Control> control,
                        Control::Listen(processes.folder() / "limits"));
  ABSL_ASSIGN_OR_RETURN(process,
                        processes.Start("limits", {(tool::FolderOfPrograms() / "paceline-bench").string(),
                                                   "peers-limits", "--control", control->path().string()}));
  ABSL_RETURN_IF_ERROR(control->Accept(processes, kStartTimeout));
  ABSL_ASSIGN_OR_RETURN(const std::string line, control->ReadLine(processes, kStartTimeout));
  const std::vector<std::string> ports = absl::StrSplit(line, ' ');
  if (ports.size() != 2 || !absl::SimpleAtoi(ports[0], &tcp_port) ||
      !absl::SimpleAtoi(ports[1], &grpc_port)) {
    return absl::InternalError(absl::StrCat("peers: the limits' server says '", line, "'"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::unique_ptr<System>>> StartEchoes(tool::Supervisor& supervisor,
                                                                 const std::filesystem::path& folder,
                                                                 const Data& data) {
  auto server = std::make_shared<EchoServer>(supervisor, folder);
  ABSL_RETURN_IF_ERROR(server->Start());
  ABSL_ASSIGN_OR_RETURN(Connection connection, Connection::To(server->tcp_port));
  std::vector<std::unique_ptr<System>> systems;
  systems.push_back(std::make_unique<RawTcp>(server, std::move(connection), data));
  systems.push_back(std::make_unique<GrpcPingPong>(server, BareStream::To(server->grpc_port)));
  return systems;
}

std::unique_ptr<System> MakeMemcpy(const Data& data) {
  return std::make_unique<Memcpy>(data);
}

}  // namespace paceline::bench::peers
