#include "bench/peers/processes.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/world/real_clock.h"

namespace paceline::bench::peers {
namespace {

constexpr absl::Duration kGrace = absl::Seconds(5);
constexpr absl::Duration kAnswerTimeout = absl::Seconds(120);
constexpr size_t kTailBytes = 2048;

absl::Status Failed(const std::string& what) {
  return absl::ErrnoToStatus(errno, absl::StrCat("peers: ", what));
}

absl::StatusOr<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("peers: '", path, "' is too long for a socket's name: set TMPDIR to a shorter folder"));
  }
  std::strcpy(address.sun_path, path.c_str());
  return address;
}

absl::Status SendLine(int socket, const std::string& line) {
  const std::string out = line + "\n";
  return send(socket, out.data(), out.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(out.size())
             ? absl::OkStatus()
             : Failed("send");
}

}  // namespace

Processes::~Processes() {
  if (!children_.empty()) supervisor_.Stop(children_, kGrace);
}

absl::StatusOr<pid_t> Processes::Start(const std::string& name, std::vector<std::string> arguments) {
  const std::filesystem::path log = folder_ / (name + ".log");
  const int output = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (output < 0) return Failed(log.string());
  const absl::StatusOr<const tool::Child*> child = supervisor_.Start(
      {.name = name, .arguments = std::move(arguments), .environment = {}, .output = output});
  close(output);
  ABSL_RETURN_IF_ERROR(child.status());
  children_.push_back(*child);
  return (*child)->process;
}

absl::StatusOr<bool> Processes::AwaitReadable(int file, absl::Duration timeout) {
  const absl::Time deadline = world::MonotonicNow() + timeout;
  while (true) {
    const tool::Supervisor::Event event = supervisor_.Wait(deadline, file);
    if (std::holds_alternative<tool::Supervisor::TimedOut>(event)) return false;
    if (std::holds_alternative<tool::Supervisor::Readable>(event)) return true;
    if (std::holds_alternative<tool::Supervisor::Signalled>(event)) {
      return absl::CancelledError("peers: a signal told this program to stop");
    }
    const tool::Child& child = *std::get<tool::Supervisor::Ended>(event).child;
    if (std::ranges::find(children_, &child) == children_.end()) continue;  // one that was stopped before
    return absl::UnavailableError(absl::StrCat("peers: ", child.name, " ", tool::DescribeEnd(*child.end),
                                               "; its output ends:\n", EndOfLog(child.name)));
  }
}

std::string Processes::EndOfLog(const std::string& name) const {
  std::ifstream in(folder_ / (name + ".log"));
  std::ostringstream all;
  all << in.rdbuf();
  const std::string text = all.str();
  return text.size() <= kTailBytes ? text : text.substr(text.size() - kTailBytes);
}

absl::StatusOr<std::unique_ptr<Control>> Control::Listen(const std::filesystem::path& path) {
  ABSL_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  std::unique_ptr<Control> control(new Control(path));
  control->listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (control->listener_ < 0 ||
      bind(control->listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(control->listener_, 1) != 0) {
    return Failed(path.string());
  }
  return control;
}

Control::~Control() {
  for (const int fd : {listener_, socket_}) {
    if (fd >= 0) close(fd);
  }
  unlink(path_.c_str());
}

absl::Status Control::Accept(Processes& processes, absl::Duration timeout) {
  ABSL_ASSIGN_OR_RETURN(const bool came, processes.AwaitReadable(listener_, timeout));
  if (!came) {
    return absl::DeadlineExceededError(absl::StrCat("peers: nobody connected to ", path_.string(), " within ",
                                                    absl::FormatDuration(timeout)));
  }
  socket_ = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  return socket_ < 0 ? Failed(path_.string()) : absl::OkStatus();
}

absl::Status Control::Send(const std::string& line) {
  const absl::Status sent = SendLine(socket_, line);
  return sent.ok() ? sent : absl::Status(sent.code(), absl::StrCat(path_.string(), ": ", sent.message()));
}

absl::StatusOr<std::string> Control::ReadLine(Processes& processes, absl::Duration timeout) {
  while (true) {
    if (const size_t end = read_.find('\n'); end != std::string::npos) {
      std::string line = read_.substr(0, end);
      read_.erase(0, end + 1);
      return line;
    }
    ABSL_ASSIGN_OR_RETURN(const bool came, processes.AwaitReadable(socket_, timeout));
    if (!came) {
      return absl::DeadlineExceededError(
          absl::StrCat("peers: no answer on ", path_.string(), " within ", absl::FormatDuration(timeout)));
    }
    char buffer[65536];
    const ssize_t n = recv(socket_, buffer, sizeof(buffer), 0);
    if (n <= 0) return absl::UnavailableError(absl::StrCat("peers: ", path_.string(), " was closed"));
    read_.append(buffer, static_cast<size_t>(n));
  }
}

absl::StatusOr<std::vector<double>> Control::ReadAnswer(Processes& processes, absl::string_view who) {
  ABSL_ASSIGN_OR_RETURN(const std::string answer, ReadLine(processes, kAnswerTimeout));
  std::istringstream in(answer);
  std::string ok;
  in >> ok;
  if (ok != "ok") return absl::InternalError(absl::StrCat("peers: ", who, " answers '", answer, "'"));
  std::vector<double> numbers;
  for (double number = 0; in >> number;) numbers.push_back(number);
  return numbers;
}

absl::Status Control::ReadNumbers(absl::Span<float> numbers) {
  char* to = reinterpret_cast<char*>(numbers.data());
  size_t left = numbers.size() * sizeof(float);
  const size_t had = std::min(left, read_.size());
  std::memcpy(to, read_.data(), had);
  read_.erase(0, had);
  for (to += had, left -= had; left > 0;) {
    const ssize_t n = recv(socket_, to, left, 0);
    if (n <= 0) return absl::UnavailableError(absl::StrCat("peers: ", path_.string(), " was closed"));
    to += n;
    left -= static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::StatusOr<ControlEnd> ControlEnd::Connect(const std::string& path) {
  ABSL_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Failed(path);
  FILE* file = nullptr;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) file = fdopen(fd, "r");
  if (file != nullptr) return ControlEnd(file);
  const absl::Status failed = Failed(path);
  close(fd);
  return failed;
}

ControlEnd::~ControlEnd() {
  if (file_ != nullptr) (void)fclose(file_);
}
ControlEnd::ControlEnd(ControlEnd&& other) noexcept : file_(std::exchange(other.file_, nullptr)) {}

absl::Status ControlEnd::Send(const std::string& line) const {
  return SendLine(fileno(file_), line);
}

std::optional<std::string> ControlEnd::ReadLine() {
  std::string line;
  for (int c = 0; (c = getc(file_)) != EOF;) {
    if (c == '\n') return line;
    line.push_back(static_cast<char>(c));
  }
  return std::nullopt;
}

absl::Status WriteBytes(const std::filesystem::path& file, absl::string_view bytes) {
  std::ofstream out(file, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  return out ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("peers: cannot write ", file.string()));
}

absl::StatusOr<int> FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  const bool bound = bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  close(fd);
  if (!bound) return Failed("bind");
  return ntohs(address.sin_port);
}

}  // namespace paceline::bench::peers
