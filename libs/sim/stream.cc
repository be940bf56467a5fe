#include "libs/sim/stream.h"

#include <algorithm>
#include <utility>

namespace paceline::sim {
namespace {

// The time between two writes on one stream.
constexpr absl::Duration kWriteTime = absl::Microseconds(20);
// A write that waits for its reader, at most; and one of a reader that is stuck.
constexpr absl::Duration kSlowWrite = absl::Milliseconds(100);
constexpr absl::Duration kStuckWrite = absl::Seconds(5);
constexpr double kSlow = 0.02;
constexpr double kStuck = 0.02;  // of those that are slow

}  // namespace

class Connection::Port final : public world::StreamPort {
 public:
  Port(std::shared_ptr<Connection> connection, Side side) : connection_(std::move(connection)), side_(side) {}
  ~Port() override { connection_->Close(side_, absl::CancelledError("the other end let go")); }
  void Kick() override { connection_->PumpSoon(side_); }
  void ReadOn() override { connection_->ReadOn(side_); }
  void Close(absl::Status why) override { connection_->Close(side_, std::move(why)); }
  bool LetsGoOfFrames() const override { return connection_->Lends(side_); }

 private:
  const std::shared_ptr<Connection> connection_;
  const Side side_;
};

Connection::Connection(Network& network, StreamInfo info, Host& client, Host& server)
    : network_(network), info_(std::move(info)) {
  At(Side::kClient).host = &client;
  At(Side::kServer).host = &server;
}

void Connection::Open(std::function<std::shared_ptr<world::AcceptedStream>()> accept) {
  if (broken_) return;
  Host& server = *At(Side::kServer).host;
  if (server.Paused(network_.scheduler_.Now())) {
    network_.scheduler_.At(server.paused_until, [self = shared_from_this(), accept] { self->Open(accept); });
    return;
  }
  // Opening a stream needs messages both ways.
  const Host& client = *At(Side::kClient).host;
  const absl::Time now = network_.scheduler_.Now();
  const bool reached =
      server.up && network_.Free(client, server) == now && network_.Free(server, client) == now;
  std::shared_ptr<world::AcceptedStream> accepted = reached ? accept() : nullptr;
  if (accepted == nullptr) {
    Break(absl::UnavailableError("connection refused"));
    return;
  }
  At(Side::kServer).handler = accepted;
  established_ = true;
  accepted->Attach(std::make_shared<Port>(shared_from_this(), Side::kServer));
  PumpSoon(Side::kClient);
}

void Connection::PumpSoon(Side side) {
  End& end = At(side);
  if (end.pump_due || end.writing || end.heard_end || !established_) return;
  end.pump_due = true;
  network_.scheduler_.After(absl::ZeroDuration(), [self = shared_from_this(), side] {
    self->At(side).pump_due = false;
    self->Pump(side);
  });
}

void Connection::Pump(Side side) {
  End& end = At(side);
  if (end.writing || end.heard_end || end.handler == nullptr) return;
  const absl::Time now = network_.scheduler_.Now();
  if (end.host->Paused(now)) {
    end.writing = true;
    network_.scheduler_.At(end.host->paused_until, [self = shared_from_this(), side] {
      self->At(side).writing = false;
      self->Pump(side);
    });
    return;
  }
  absl::Cord frame;
  if (!end.handler->NextFrame(&frame)) return;
  end.writing = true;
  network_.scheduler_.After(DrawWriteTime(side), [self = shared_from_this(), side] { self->Written(side); });
  if (network_.watcher != nullptr) network_.watcher->OnSent(info_, side, frame);
  Lends(side) ? void(end.lent = std::move(frame)) : Send(side, std::move(frame));
}

bool Connection::Lends(Side side) const {
  return network_.lends && side == Side::kClient && info_.kind == world::StreamKind::kPush;
}

absl::Duration Connection::DrawWriteTime(Side side) {
  if (!Lends(side) || network_.slow_writes_left_ == 0 || !world::Chance(network_.random_, kSlow)) {
    return kWriteTime;
  }
  --network_.slow_writes_left_;
  const bool stuck = world::Chance(network_.random_, kStuck);
  return (stuck ? kStuckWrite : kSlowWrite) * world::UnitInterval(network_.random_);
}

void Connection::Written(Side side) {
  End& end = At(side);
  if (Lends(side) && !end.heard_end) {
    if (const absl::Time now = network_.scheduler_.Now(); end.host->Paused(now)) {
      network_.scheduler_.At(end.host->paused_until,
                             [self = shared_from_this(), side] { self->Written(side); });
      return;
    }
    // After a break the process may be gone, and the memory with it; or the end has let go of the frame.
    if (!broken_) Send(side, absl::Cord(std::string(end.lent)));
    end.lent.Clear();
  }
  end.writing = false;
  Pump(side);
}

void Connection::Send(Side side, absl::Cord frame) {
  if (broken_) return;  // its sender does not know yet
  End& end = At(side);
  const absl::Time now = network_.scheduler_.Now();
  const absl::Duration delay = network_.latency.Draw(network_.random_, *end.host, *At(Other(side)).host, now);
  end.last_arrival = std::max(end.last_arrival, now + delay);
  end.under_way.push_back(std::move(frame));
  network_.scheduler_.At(end.last_arrival, [self = shared_from_this(), side] { self->Arrive(side); });
}

void Connection::Arrive(Side from) {
  End& end = At(from);
  End& to = At(Other(from));
  if (end.under_way.empty() || to.heard_end) return;
  if (to.host->Paused(network_.scheduler_.Now())) {
    network_.scheduler_.At(to.host->paused_until, [self = shared_from_this(), from] { self->Arrive(from); });
    return;
  }
  if (const absl::Time free = network_.Free(*end.host, *to.host); free > network_.scheduler_.Now()) {
    network_.scheduler_.At(free, [self = shared_from_this(), from] { self->Arrive(from); });
    return;
  }
  // Once it has taken none, it is not asked again before it says ReadOn.
  if (end.unread > 0 || !to.handler->TakesFrame()) {
    ++end.unread;
    return;
  }
  const absl::Cord frame = std::move(end.under_way.front());
  end.under_way.pop_front();
  network_.history_.Add(info_.id * 2 + static_cast<uint64_t>(from));
  network_.history_.Add(frame);
  if (network_.watcher != nullptr) network_.watcher->OnArriving(info_, Other(from), frame);
  to.handler->OnFrame(frame);
  if (network_.watcher != nullptr) network_.watcher->OnArrived(info_, Other(from), frame);
}

void Connection::ReadOn(Side side) {
  const Side from = Other(side);
  for (size_t unread = std::exchange(At(from).unread, 0); unread > 0; --unread) {
    network_.scheduler_.After(absl::ZeroDuration(),
                              [self = shared_from_this(), from] { self->Arrive(from); });
  }
}

size_t Connection::Lose(Side side, size_t kept) {
  std::deque<absl::Cord>& frames = At(side).under_way;
  const size_t lost = frames.size() - std::min(kept, frames.size());
  frames.resize(frames.size() - lost);
  return lost;
}

size_t Connection::Break(const absl::Status& why) {
  if (broken_) return 0;
  broken_ = true;
  size_t lost = 0;
  for (const Side side : {Side::kClient, Side::kServer}) {
    lost += Lose(side, world::Uniform(network_.random_, At(side).under_way.size() + 1));
  }
  const absl::Time now = network_.scheduler_.Now();
  for (const Side side : {Side::kClient, Side::kServer}) {
    const absl::Duration news =
        network_.latency.Draw(network_.random_, *At(side).host, *At(Other(side)).host, now);
    TellEnd(side, std::max(now, At(Other(side)).last_arrival) + news, why);
  }
  return lost;
}

void Connection::Close(Side by, absl::Status why) {
  At(by).lent.Clear();
  if (broken_) return;
  broken_ = true;
  // Frames under way to the closing end are lost. A server's last frames arrive; a client that closes cancels
  // its call, which may lose any suffix of its frames.
  Lose(Other(by), 0);
  if (by == Side::kClient) Lose(by, world::Uniform(network_.random_, At(by).under_way.size() + 1));
  const absl::Time now = network_.scheduler_.Now();
  TellEnd(by, now, why);
  const absl::Duration news = network_.latency.Draw(network_.random_, *At(by).host, *At(Other(by)).host, now);
  const absl::Time free = network_.Free(*At(by).host, *At(Other(by)).host);
  TellEnd(Other(by), std::max(free, At(by).last_arrival) + news, std::move(why));
}

void Connection::TellEnd(Side side, absl::Time when, absl::Status why) {
  network_.scheduler_.At(when, [self = shared_from_this(), side, why = std::move(why)] {
    End& end = self->At(side);
    if (end.heard_end) return;
    if (const absl::Time now = self->network_.scheduler_.Now(); end.host->Paused(now)) {
      return self->TellEnd(side, end.host->paused_until + absl::Microseconds(1), why);
    }
    end.heard_end = true;
    end.lent.Clear();
    const std::shared_ptr<world::StreamHandler> handler = std::exchange(end.handler, nullptr);
    if (handler != nullptr) handler->OnBroken(why);
  });
}

void Network::Listen(const std::string& address, Host& server,
                     std::function<std::shared_ptr<world::AcceptedStream>(world::StreamKind)> accept) {
  listeners_[address] = {.host = &server, .accept = std::move(accept)};
}

std::unique_ptr<world::StreamPort> Network::Dial(Host& client, const std::string& address,
                                                 world::StreamKind kind,
                                                 std::shared_ptr<world::StreamHandler> handler) {
  const Listener& listener = listeners_.at(address);
  StreamInfo info{.id = ++dialed_, .kind = kind, .client = client.name, .server = listener.host->name};
  auto connection = std::make_shared<Connection>(*this, std::move(info), client, *listener.host);
  connection->At(Side::kClient).handler = std::move(handler);
  connections_.push_back(connection);
  scheduler_.After(latency.Draw(random_, client, *listener.host, scheduler_.Now()),
                   [connection, accept = listener.accept, kind] {
                     connection->Open([accept, kind] { return accept(kind); });
                   });
  return std::make_unique<Connection::Port>(std::move(connection), Side::kClient);
}

absl::Time Network::Free(const Host& from, const Host& to) {
  const absl::Time now = scheduler_.Now();
  return partitions == nullptr ? now : partitions->Free(from.name, to.name, now);
}

void Network::Shut() {
  for (const auto& connection : std::exchange(connections_, {})) {
    connection->broken_ = true;
    for (Connection::End& end : connection->ends_) {
      end.heard_end = true;
      end.lent.Clear();
      if (auto handler = std::exchange(end.handler, nullptr)) handler->OnBroken(absl::CancelledError("over"));
    }
  }
}

const std::vector<std::shared_ptr<Connection>>& Network::connections() {
  std::erase_if(connections_, [](const auto& connection) { return connection->over(); });
  return connections_;
}

}  // namespace paceline::sim
