#pragma once

#include <grpcpp/grpcpp.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "grpcpp/server_builder.h"

namespace paceline::rpc {

// How many descriptors the process may have open (RLIMIT_NOFILE), and which of them connections may take. The
// rest is for the process's own files and connections; some of that also for connections from this machine,
// so that a health check or an operator gets in when others have taken all there is for them.
struct DescriptorLimits {
  uint64_t all = 0;
  uint64_t others = 0;  // connections from anywhere take descriptors below this number
  uint64_t local = 0;   // those from this machine below this one
};
DescriptorLimits LimitsOf(uint64_t all);
// … of this process, now.
DescriptorLimits LimitsNow();

// What became of connections to one listener. Written by it, read by anybody.
struct ConnectionCounts {
  std::atomic<uint64_t> accepted = 0;
  std::atomic<uint64_t> refused = 0;  // for want of descriptors
  std::atomic<bool> full = false;  // one was refused within the last three seconds, or there is still no room
};

// The listening end of a gRPC server. gRPC's own listener ends for good, without a word to the process, when
// accept fails once, as it does when descriptors have run out. This one accepts by itself, keeps descriptors
// in reserve (LimitsOf), closes connections at once that it has none for, and goes on whatever accept says.
//
// Order of use: Open, AddTo, build the server, Start; Stop before the server is shut down.
class Listener {
 public:
  // Called from the listener's thread when it begins to refuse connections (`full`) and when it takes them
  // again.
  using OnFull = std::function<void(bool full)>;

  // Listens on every address that `address` (HOST:PORT; port 0: a free one) stands for. UNAVAILABLE, naming
  // it, if that is not possible.
  // `flag` is what the address was given by, for that message. Listeners of one process may share `counts`.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(
      const std::string& address, const std::string& flag = "--listen",
      std::shared_ptr<ConnectionCounts> counts = std::make_shared<ConnectionCounts>());
  // Calls Stop.
  ~Listener();

  // HOST:PORT as it was bound.
  const std::string& address() const { return address_; }
  // Shared with whoever shows it, which may be for longer than the listener lives.
  std::shared_ptr<const ConnectionCounts> counts() const { return counts_; }

  // The server that is built next gets the connections.
  void AddTo(grpc::ServerBuilder& builder);
  // Begins to accept. REQUIRES: the server is built.
  void Start(OnFull told = nullptr);
  // Cuts the connection from `peer`, as grpc::ServerContext::peer has it: gRPC sees it break. From any
  // thread.
  void Cut(const std::string& peer);
  // Accepts nothing more and closes its sockets. What was accepted lives on.
  void Stop();

 private:
  explicit Listener(std::shared_ptr<ConnectionCounts> counts) : counts_(std::move(counts)) {}
  absl::Status Bind(const std::string& host, const std::string& port);
  void Run();
  void TakeAll(int door);
  // False: nobody waits, or nobody can be taken now.
  bool TakeOne(int door);
  void Take(int door, int fd, const sockaddr_storage& from);
  // Of the connection that is next, with the descriptor that was kept for this.
  bool RefuseNext(int door);
  void Refused();
  void LookForRoom();
  void Tell(bool full);

  std::string address_;
  std::vector<int> doors_;
  int wake_ = -1;   // an eventfd: it is the end
  int spare_ = -1;  // kept for RefuseNext
  std::chrono::steady_clock::time_point refused_at_;
  std::atomic<int> highest_ = -1;  // descriptor that a connection has had
  bool starved_ = false;           // accept has failed: wait a moment before the next one
  const std::shared_ptr<ConnectionCounts> counts_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> server_;
  OnFull told_;
  std::thread thread_;
};

}  // namespace paceline::rpc
