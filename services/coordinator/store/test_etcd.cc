#include "services/coordinator/store/test_etcd.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/status.h"
#include "libs/world/real_clock.h"

namespace paceline::coordinator {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(40);
constexpr size_t kTailBytes = 4096;

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A port that nobody listens on now. Somebody may before etcd does: then it is started on others. Below those
// that the kernel gives to clients: one that tries to reach such a port while nobody listens there may be
// given it for its own end, and talks to itself.
int FreePort() {
  std::random_device random;
  while (true) {
    const int port = std::uniform_int_distribution<int>(15'000, 32'000)(random);
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = Loopback(port);
    const int bound = bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    close(socket);
    if (bound == 0) return port;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<TestEtcd>> TestEtcd::Start(std::vector<std::string> flags) {
  absl::Status status;
  for (int tries = 0; tries < 3; ++tries) {
    std::unique_ptr<TestEtcd> etcd(new TestEtcd());
    std::string name = (std::filesystem::temp_directory_path() / "paceline_etcd_XXXXXX").string();
    etcd->dir_ = mkdtemp(name.data());
    etcd->endpoint_ = absl::StrCat("127.0.0.1:", FreePort());
    etcd->peer_ = absl::StrCat("127.0.0.1:", FreePort());
    etcd->flags_ = flags;
    status = etcd->Run();
    if (status.ok()) return etcd;
    if (absl::IsNotFound(status)) break;
  }
  return status;
}

TestEtcd::~TestEtcd() {
  Kill();
  std::error_code ignored;
  std::filesystem::remove_all(dir_, ignored);
}

absl::Status TestEtcd::Run() {
  const std::string client_url = absl::StrCat("http://", endpoint_);
  const std::string peer_url = absl::StrCat("http://", peer_);
  std::vector<std::string> arguments = {"etcd",
                                        "--name=test",
                                        absl::StrCat("--data-dir=", dir_, "/data"),
                                        absl::StrCat("--listen-client-urls=", client_url),
                                        absl::StrCat("--advertise-client-urls=", client_url),
                                        absl::StrCat("--listen-peer-urls=", peer_url),
                                        absl::StrCat("--initial-advertise-peer-urls=", peer_url),
                                        absl::StrCat("--initial-cluster=test=", peer_url)};
  arguments.insert(arguments.end(), flags_.begin(), flags_.end());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const std::string log = dir_ + "/log";
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    execvp("etcd", argv.data());
    _exit(127);
  }
  const absl::Time deadline = world::MonotonicNow() + kStartTimeout;
  while (world::MonotonicNow() < deadline) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = 0;
      if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
        return absl::NotFoundError("no etcd to run; scripts/setup installs the package etcd-server");
      }
      return absl::UnavailableError(absl::StrCat("etcd ended by itself: ", Log()));
    }
    if (Answers()) return absl::OkStatus();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return absl::UnavailableError(absl::StrCat("etcd does not answer: ", Log()));
}

bool TestEtcd::Answers() const {
  const int port = std::atoi(endpoint_.substr(endpoint_.rfind(':') + 1).c_str());
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(port);
  // It listens once it has an elected leader.
  const bool connected = connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(socket);
  return connected;
}

std::string TestEtcd::Log() const {
  std::ifstream file(dir_ + "/log");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return text.size() <= kTailBytes ? text : text.substr(text.size() - kTailBytes);
}

void TestEtcd::Kill() {
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

absl::Status TestEtcd::Restart() {
  return Run();
}
void TestEtcd::Pause() {
  kill(pid_, SIGSTOP);
}
void TestEtcd::Resume() {
  kill(pid_, SIGCONT);
}

}  // namespace paceline::coordinator
