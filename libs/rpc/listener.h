#pragma once

#include <grpcpp/grpcpp.h>
#include <poll.h>
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
#include "absl/types/span.h"
#include "grpcpp/server_builder.h"
#include "libs/carrier/descriptor.h"
#include "libs/tcp/preamble.h"

namespace paceline::rpc {

// The descriptors that the process may have open (RLIMIT_NOFILE), and the share that connections may use. The
// rest is for the process's own files and connections. Part of that rest is also open to connections from
// this machine, so that a health check or an operator gets in when remote clients have used up theirs.
struct DescriptorLimits {
  uint64_t all = 0;
  uint64_t others = 0;  // remote connections get descriptors below this number
  uint64_t local = 0;   // connections from this machine below this one
};
DescriptorLimits LimitsOf(uint64_t all);
// The limits of this process, now.
DescriptorLimits LimitsNow();

// Counts the connections to one listener. The listener writes it, any thread may read it.
struct ConnectionCounts {
  std::atomic<uint64_t> accepted = 0;
  std::atomic<uint64_t> refused = 0;  // for want of descriptors
  std::atomic<bool> full = false;  // one was refused within the last three seconds, or there is still no room
};

// The listening end of a gRPC server. gRPC's own listener ends for good, and silently, when accept fails
// once, as it does when descriptors run out. This one accepts by itself, keeps descriptors in reserve
// (LimitsOf), closes connections for which it has none at once, and survives every error of accept.
//
// Order of use: Open, AddTo, build the server, Start; Stop before the server is shut down.
class Listener {
 public:
  // Called on the listener's thread when it begins to refuse connections (`full`) and when it accepts them
  // again.
  using OnFull = std::function<void(bool full)>;
  // Takes a connection that began with a preamble, which has been read. Called on the listener's thread.
  using TakeDirect = std::function<void(carrier::Descriptor connection, const tcp::Preamble& preamble)>;

  // A connection on which nothing comes for so long is closed.
  static constexpr std::chrono::seconds kSilentMax{10};

  // Listens on every address that `address` (HOST:PORT; port 0: a free one) resolves to. UNAVAILABLE, naming
  // the address, if that fails. `flag` is the flag that gave the address, for that message. Listeners of one
  // process may share `counts`.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(
      const std::string& address, const std::string& flag = "--listen",
      std::shared_ptr<ConnectionCounts> counts = std::make_shared<ConnectionCounts>());
  // Calls Stop.
  ~Listener();

  // HOST:PORT as bound.
  const std::string& address() const { return address_; }
  // Shared, since a page may show the counts for longer than the listener lives.
  std::shared_ptr<const ConnectionCounts> counts() const { return counts_; }

  // The server that this builder builds gets the connections.
  void AddTo(grpc::ServerBuilder& builder);
  // Begins to accept. REQUIRES: the server is built. `direct` gets the connections that carry a stream
  // without gRPC; null: gRPC gets all, and ends those.
  void Start(OnFull told = nullptr, TakeDirect direct = nullptr);
  // Cuts the connection from `peer`, in the form of grpc::ServerContext::peer: gRPC sees it break.
  // Thread-safe.
  void Cut(const std::string& peer);
  // Stops accepting and closes the listening sockets. Accepted connections live on.
  void Stop();

 private:
  // A connection whose first bytes do not say yet whose it is.
  struct Guest {
    carrier::Descriptor connection;
    int door;
    std::chrono::steady_clock::time_point until;
    bool began = false;  // some bytes came
  };

  explicit Listener(std::shared_ptr<ConnectionCounts> counts) : counts_(std::move(counts)) {}
  absl::Status Bind(const std::string& host, const std::string& port);
  void Run();
  void TakeAll(int door);
  // False: no connection waits, or none can be accepted now.
  bool TakeOne(int door);
  void Take(int door, int fd, const sockaddr_storage& from);
  // True: the guest has left, to gRPC or to direct_, or is closed.
  bool Hear(Guest& guest);
  // `ready`: what poll says of each of guests_.
  void HearGuests(absl::Span<const pollfd> ready);
  void GiveToGrpc(int door, carrier::Descriptor connection);
  // Refuses the next connection, by means of the reserved descriptor.
  bool RefuseNext(int door);
  void Refused();
  void LookForRoom();
  void Tell(bool full);

  std::string address_;
  std::vector<int> doors_;
  int wake_ = -1;   // an eventfd, written to stop the thread
  int spare_ = -1;  // kept for RefuseNext
  std::chrono::steady_clock::time_point refused_at_;
  std::atomic<int> highest_ = -1;  // the highest descriptor that a connection has had
  bool starved_ = false;           // accept has failed: wait a moment before the next one
  const std::shared_ptr<ConnectionCounts> counts_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> server_;
  OnFull told_;
  TakeDirect direct_;
  std::vector<Guest> guests_;
  std::thread thread_;
};

}  // namespace paceline::rpc
