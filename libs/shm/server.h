#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/carrier/loop.h"
#include "libs/shm/handover.h"
#include "libs/world/port.h"

namespace paceline::shm {

// Memory of connections, counted where the process counts its memory.
class Budget {
 public:
  virtual ~Budget() = default;
  // False: there is no room. Thread-safe, like Return.
  virtual bool Take(uint64_t bytes) = 0;
  virtual void Return(uint64_t bytes) = 0;
};

// The shard's end: listens at a socket, and serves the streams that clients, or other shards, hand over
// there.
class Server {
 public:
  struct Options {
    std::string path = {};                        // SocketPath(folder, address)
    std::string peers = "a client of this host";  // who dials there, for messages
    int threads = 1;                              // that carry streams
    int64_t streams_max = 256;
    uint64_t frame_bytes_max = uint64_t{16} << 20;
    absl::Duration spin_max = absl::Microseconds(50);
    absl::Duration offer_timeout = absl::Seconds(2);
    std::shared_ptr<Budget> budget = nullptr;  // null: not counted
  };
  // nullptr: such streams are not served.
  using NewHandler = std::function<std::shared_ptr<world::AcceptedStream>(world::StreamKind kind)>;

  struct Counts {
    std::atomic<uint64_t> taken = 0;    // streams, since the start
    std::atomic<uint64_t> refused = 0;  // for any reason
    std::atomic<int64_t> open = 0;      // now
    std::atomic<uint64_t> bytes = 0;    // of memory now
  };

  // UNAVAILABLE, naming the path: nobody can listen there.
  static absl::StatusOr<std::unique_ptr<Server>> Start(Options options, NewHandler handler);
  // Takes no more streams, ends those that are there, joins the threads.
  ~Server();

  // Shared, since a page may show the counts for longer than the server lives.
  std::shared_ptr<const Counts> counts() const { return counts_; }

 private:
  class Held;
  // A connection without an offer yet.
  struct Guest {
    Descriptor socket;
    absl::Time until;
  };

  Server(Options options, NewHandler handler);
  void Run();
  // True: accept fails for want of descriptors; look again later.
  bool AcceptAll();
  void HearGuests(absl::Time now);
  // UNAVAILABLE: no offer yet.
  absl::Status Hear(Guest& guest);
  absl::Status Serve(Guest& guest, Offer offer);

  const Options options_;
  const NewHandler handler_;
  const std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
  Descriptor listener_;
  SocketFile file_;
  Descriptor stop_;
  std::vector<std::unique_ptr<carrier::Loop>> loops_;
  uint64_t next_loop_ = 0;
  std::vector<Guest> guests_;
  std::thread thread_;
};

}  // namespace paceline::shm
