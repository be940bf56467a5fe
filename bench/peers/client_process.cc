#include "bench/peers/client_process.h"

#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "bench/peers/echo.h"
#include "bench/peers/pipeline.h"
#include "bench/peers/plan.h"
#include "libs/base/status.h"
#include "tools/paceline/child.h"

namespace paceline::bench::peers {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(30);
constexpr absl::string_view kWho = "a client";

// The process's side: a line in, a line out.
class Server {
 public:
  Server(const Data& data, uint64_t draw, PacelineClient& client)
      : data_(data), draw_(draw), client_(client) {}

  std::string Answer(const std::string& line) {
    std::istringstream in(line);
    std::string what;
    in >> what;
    const absl::StatusOr<std::string> numbers = what == "run"     ? Run(in)
                                                : what == "raw"   ? RunRaw(in)
                                                : what == "check" ? Check(in)
                                                : what == "touch" ? Touch()
                                                                  : absl::UnimplementedError(line);
    return numbers.ok() ? absl::StrCat("ok ", *numbers)
                        : absl::StrCat("failed: ", numbers.status().message());
  }

 private:
  absl::StatusOr<std::string> Touch() {
    ABSL_RETURN_IF_ERROR(client_.Touch());
    return "";
  }

  absl::StatusOr<std::string> Run(std::istringstream& in) {
    std::string op;
    size_t batch = 0, outstanding = 0;
    uint64_t first = 0;
    double seconds = 0;
    if (!(in >> op >> batch >> outstanding >> first >> seconds)) return absl::InvalidArgumentError(in.str());
    auto [it, is_new] = works_.try_emplace(batch);
    if (is_new) it->second = MakeWork(data_, batch, outstanding, draw_);
    it->second.outstanding = outstanding;
    ABSL_ASSIGN_OR_RETURN(const Turn turn, client_.Run(op == NameOf(Op::kPush) ? Op::kPush : Op::kPull,
                                                       it->second, first, absl::Seconds(seconds)));
    return absl::StrCat(turn.us.size(), " ", turn.seconds);
  }

  absl::StatusOr<std::string> RunRaw(std::istringstream& in) {
    std::string op_name;
    int port = 0;
    size_t batch = 0, outstanding = 0;
    double seconds = 0;
    if (!(in >> port >> op_name >> batch >> outstanding >> seconds))
      return absl::InvalidArgumentError(in.str());
    if (!raw_.has_value()) {
      ABSL_ASSIGN_OR_RETURN(raw_, Connection::To(port));
    }
    const Op op = op_name == NameOf(Op::kPush) ? Op::kPush : Op::kPull;
    // Kept, so that its buffers are not part of what is measured.
    auto [it, is_new] = protocols_.try_emplace({op, batch}, op, data_, batch);
    ABSL_ASSIGN_OR_RETURN(const Turn turn, raw_->Run(it->second, 0, outstanding, absl::Seconds(seconds)));
    return absl::StrCat(turn.us.size(), " ", turn.seconds);
  }

  absl::StatusOr<std::string> Check(std::istringstream& in) {
    std::string file;
    in >> file;
    std::vector<uint32_t> pushes(data_.rows);
    if (!std::ifstream(file, std::ios::binary)
             .read(reinterpret_cast<char*>(pushes.data()),
                   static_cast<std::streamsize>(pushes.size() * sizeof(uint32_t)))) {
      return absl::UnavailableError(absl::StrCat("cannot read ", data_.rows, " counts of ", file));
    }
    ABSL_ASSIGN_OR_RETURN(const uint64_t wrong, client_.WrongRows(pushes));
    return absl::StrCat(wrong);
  }

  const Data data_;
  const uint64_t draw_;
  PacelineClient& client_;
  std::map<size_t, Work> works_;  // by rows a request
  std::optional<Connection> raw_;
  std::map<std::pair<Op, size_t>, EchoProtocol> protocols_;  // of raw_, by kind and rows of a request
};

absl::Status Serve(const std::vector<std::string>& arguments) {
  uint64_t draw = 0;
  Data data{.name = "rows"};
  int dense = 0;
  if (arguments.size() != 7 || !absl::SimpleAtoi(arguments[1], &draw) ||
      !absl::SimpleAtoi(arguments[4], &data.rows) || !absl::SimpleAtoi(arguments[5], &data.dim) ||
      !absl::SimpleAtoi(arguments[6], &dense)) {
    return absl::InvalidArgumentError("expected CONTROL DRAW COORDINATOR TABLE ROWS DIM DENSE");
  }
  data.dense = dense != 0;
  const Kind kind = arguments[3] == NameOf(Kind::kRanged) ? Kind::kRanged : Kind::kSparse;
  if (arguments[3] != NameOf(kind)) {
    return absl::InvalidArgumentError(absl::StrCat("TABLE '", arguments[3], "': expected ranged or sparse"));
  }
  ABSL_ASSIGN_OR_RETURN(ControlEnd control, ControlEnd::Connect(arguments[0]));
  ABSL_ASSIGN_OR_RETURN(const auto client, PacelineClient::Connect(arguments[2], "", data, kind));
  Server server(data, draw, *client);
  ABSL_RETURN_IF_ERROR(control.Send("ready"));
  while (const std::optional<std::string> line = control.ReadLine()) {
    ABSL_RETURN_IF_ERROR(control.Send(server.Answer(*line)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClientProcess>> ClientProcess::Start(Processes& processes, uint64_t draw,
                                                                    const std::string& coordinator,
                                                                    const Data& data, Kind kind) {
  std::unique_ptr<ClientProcess> made(new ClientProcess(processes, draw));
  const std::string name = absl::StrCat("client-", draw);
  ABSL_ASSIGN_OR_RETURN(made->control_, Control::Listen(processes.folder() / name));
  ABSL_RETURN_IF_ERROR(
      processes
          .Start(name, {(tool::FolderOfPrograms() / "paceline-bench").string(), "peers-client",
                        made->control_->path().string(), absl::StrCat(draw), coordinator, NameOf(kind),
                        absl::StrCat(data.rows), absl::StrCat(data.dim), data.dense ? "1" : "0"})
          .status());
  ABSL_RETURN_IF_ERROR(made->control_->Accept(processes, kStartTimeout));
  ABSL_RETURN_IF_ERROR(made->control_->ReadLine(processes, kStartTimeout).status());
  return made;
}

absl::Status ClientProcess::Begin(Op op, size_t batch, size_t outstanding, absl::Duration duration) {
  uint64_t& pushes = pushes_[batch];
  counted_ = op == Op::kPush ? &pushes : nullptr;
  return control_->Send(absl::StrCat("run ", NameOf(op), " ", batch, " ", outstanding, " ", pushes, " ",
                                     absl::ToDoubleSeconds(duration)));
}

absl::Status ClientProcess::BeginRaw(int port, Op op, size_t batch, size_t outstanding,
                                     absl::Duration duration) {
  counted_ = nullptr;
  return control_->Send(absl::StrCat("raw ", port, " ", NameOf(op), " ", batch, " ", outstanding, " ",
                                     absl::ToDoubleSeconds(duration)));
}

absl::StatusOr<double> ClientProcess::End() {
  ABSL_ASSIGN_OR_RETURN(const std::vector<double> numbers, control_->ReadAnswer(processes_, kWho));
  if (numbers.size() != 2 || numbers[0] < 1 || numbers[1] <= 0) {
    return absl::InternalError("peers: a client has made no request");
  }
  if (counted_ != nullptr) *counted_ += static_cast<uint64_t>(numbers[0]);
  return numbers[0] / numbers[1];
}

void ClientProcess::CountPushes(const Data& data, std::vector<uint32_t>& of_rows) const {
  for (const auto& [batch, pushes] : pushes_) {
    peers::CountPushes(MakeWork(data, batch, 1, draw_), pushes, of_rows);
  }
}

absl::StatusOr<uint64_t> ClientProcess::WrongRows(const std::vector<uint32_t>& pushes) {
  const std::filesystem::path file = processes_.folder() / "pushes";
  ABSL_RETURN_IF_ERROR(WriteNumbers(file, pushes));
  ABSL_ASSIGN_OR_RETURN(const std::vector<double> numbers, Ask(absl::StrCat("check ", file.string())));
  if (numbers.size() != 1) return absl::InternalError("peers: a client did not check its rows");
  return static_cast<uint64_t>(numbers[0]);
}

absl::StatusOr<std::vector<double>> ClientProcess::Ask(const std::string& line) {
  ABSL_RETURN_IF_ERROR(control_->Send(line));
  return control_->ReadAnswer(processes_, kWho);
}

int ServePeersClient(const std::vector<std::string>& arguments) {
  const absl::Status served = Serve(arguments);
  if (served.ok()) return 0;
  std::fprintf(stderr, "paceline-bench: peers-client: %s\n", served.ToString().c_str());
  return 1;
}

}  // namespace paceline::bench::peers
