#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "libs/sim/history_hash.h"
#include "libs/sim/host.h"
#include "libs/sim/partitions.h"
#include "libs/sim/scheduler.h"
#include "libs/world/port.h"
#include "libs/world/random.h"

namespace paceline::sim {

enum class Side : uint8_t { kClient = 0, kServer = 1 };

inline Side Other(Side side) {
  return side == Side::kClient ? Side::kServer : Side::kClient;
}

// The stream that a frame belongs to.
struct StreamInfo {
  uint64_t id = 0;  // counts streams
  world::StreamKind kind = world::StreamKind::kPush;
  std::string client;  // names of the hosts
  std::string server;
};

// Observes every frame.
class StreamWatcher {
 public:
  virtual ~StreamWatcher() = default;
  // A frame is taken from its sender. It may never arrive.
  virtual void OnSent(const StreamInfo& /*stream*/, Side /*from*/, const absl::Cord& /*frame*/) {}
  // Called before and after the receiver gets the frame.
  virtual void OnArriving(const StreamInfo& /*stream*/, Side /*to*/, const absl::Cord& /*frame*/) {}
  virtual void OnArrived(const StreamInfo& /*stream*/, Side /*to*/, const absl::Cord& /*frame*/) {}
};

class Network;

// Carries frames between a dialed handler and an accepted one. Frames of one direction arrive in order; there
// is no order between directions or streams. When it breaks, a random suffix of the frames under way is lost
// in each direction. Each end hears of the break in its own time, and of nothing after it.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Network& network, StreamInfo info, Host& client, Host& server);

  const StreamInfo& info() const { return info_; }
  bool established() const { return established_ && !broken_; }
  // True once both ends have heard of the end.
  bool over() const { return ends_[0].heard_end && ends_[1].heard_end; }
  size_t under_way() const { return ends_[0].under_way.size() + ends_[1].under_way.size(); }

  // The accepting end closes it.
  void CloseByServer(absl::Status why) { Close(Side::kServer, std::move(why)); }
  // The process of the accepting end is gone: frames on their way to it are lost, also those from before a
  // cut of the link.
  void ServerIsGone() { Lose(Side::kClient, 0); }
  // The link is cut. Returns how many frames are lost with it.
  size_t Break(const absl::Status& why);

 private:
  friend class Network;
  class Port;
  struct End {
    Host* host = nullptr;
    std::shared_ptr<world::StreamHandler> handler;
    std::deque<absl::Cord> under_way;                // sent by this end
    size_t unread = 0;                               // of them: have arrived, and the other end takes none
    absl::Time last_arrival = absl::InfinitePast();  // of them
    bool writing = false;
    absl::Cord lent;  // the frame that is being written, where its bytes are read when its write ends
    bool pump_due = false;
    bool heard_end = false;
  };

  End& At(Side side) { return ends_[static_cast<size_t>(side)]; }
  void Open(std::function<std::shared_ptr<world::AcceptedStream>()> accept);
  void PumpSoon(Side side);
  void Pump(Side side);
  // The frame leaves.
  void Send(Side side, absl::Cord frame);
  // The memory of the end's frames is read only when their write ends, which may be much later: see
  // Network::lends.
  bool Lends(Side side) const;
  absl::Duration DrawWriteTime(Side side);
  void Written(Side side);
  void Arrive(Side from);
  // The end may take frames again.
  void ReadOn(Side side);
  // The other end hears `why`; the closing end hears of the end at once.
  void Close(Side by, absl::Status why);
  // Only the first `kept` of the frames that `side` has under way still arrive.
  size_t Lose(Side side, size_t kept);
  void TellEnd(Side side, absl::Time when, absl::Status why);

  Network& network_;
  const StreamInfo info_;
  std::array<End, 2> ends_;
  bool established_ = false;
  bool broken_ = false;
};

// All streams of a simulated cluster.
class Network {
 public:
  Network(Scheduler& scheduler, world::Random& random, HistoryHash& history)
      : scheduler_(scheduler), random_(random), history_(history) {}

  // From now on streams to `address` reach `server`, whose `accept` makes the accepting end.
  void Listen(const std::string& address, Host& server,
              std::function<std::shared_ptr<world::AcceptedStream>(world::StreamKind)> accept);
  std::unique_ptr<world::StreamPort> Dial(Host& client, const std::string& address, world::StreamKind kind,
                                          std::shared_ptr<world::StreamHandler> handler);
  // Ends all streams at once and drops all references.
  void Shut();
  // Streams that have not ended at both ends, oldest first.
  const std::vector<std::shared_ptr<Connection>>& connections();

  Latency latency;
  // Carriers of pushes say that they let go of the frames of an ended stream, and read a frame's memory as
  // its write ends, which now and then is much later.
  bool lends = false;
  StreamWatcher* watcher = nullptr;
  Partitions* partitions = nullptr;  // null: every host reaches every other

 private:
  friend class Connection;
  struct Listener {
    Host* host = nullptr;
    std::function<std::shared_ptr<world::AcceptedStream>(world::StreamKind)> accept;
  };

  Scheduler& scheduler_;
  world::Random& random_;
  HistoryHash& history_;
  std::map<std::string, Listener> listeners_;
  int slow_writes_left_ = 60;  // more would hold up the work of a run for too long
  // The time at which something sent now by `from` can reach `to`.
  absl::Time Free(const Host& from, const Host& to);

  std::vector<std::shared_ptr<Connection>> connections_;
  uint64_t dialed_ = 0;
};

// Dials from one host. Borrows both.
class HostDialer final : public world::Dialer {
 public:
  HostDialer(Network& network, Host& host) : network_(network), host_(host) {}
  std::unique_ptr<world::StreamPort> Dial(const std::string& address, world::StreamKind kind,
                                          std::shared_ptr<world::StreamHandler> handler) override {
    return network_.Dial(host_, address, kind, std::move(handler));
  }

 private:
  Network& network_;
  Host& host_;
};

}  // namespace paceline::sim
