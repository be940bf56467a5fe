#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "libs/world/port.h"

namespace paceline::sdk::testing {

// The far end of a stream that a client has dialed, in a test's hands. Nothing moves unless the test moves
// it.
class FakeStream {
 public:
  FakeStream(std::string address_in, world::StreamKind kind_in, std::shared_ptr<world::StreamHandler> handler)
      : address(std::move(address_in)), kind(kind_in), handler_(std::move(handler)) {}

  const std::string address;
  const world::StreamKind kind;

  bool open() const { return handler_ != nullptr; }
  // The client has asked to close it, but has not been told that it is.
  bool closing() const { return open() && closing_; }

  // The client's next frame; nullopt: it has none now.
  std::optional<absl::Cord> Take() {
    absl::Cord frame;
    if (!open() || closing_ || !handler_->NextFrame(&frame)) return std::nullopt;
    return frame;
  }
  void Give(absl::Cord frame) {
    if (open() && !closing_) handler_->OnFrame(std::move(frame));
  }
  void Break(absl::Status why = absl::UnavailableError("connection reset")) {
    if (auto handler = std::exchange(handler_, nullptr)) handler->OnBroken(std::move(why));
  }

 private:
  friend class FakeDialer;
  std::shared_ptr<world::StreamHandler> handler_;
  bool closing_ = false;
};

class FakeDialer final : public world::Dialer {
 public:
  std::unique_ptr<world::StreamPort> Dial(const std::string& address, world::StreamKind kind,
                                          std::shared_ptr<world::StreamHandler> handler) override {
    streams.push_back(std::make_shared<FakeStream>(address, kind, std::move(handler)));
    return std::make_unique<Port>(streams.back(), *this);
  }

  // The newest stream to the address, open or not; nullptr: none was dialed.
  std::shared_ptr<FakeStream> Newest(const std::string& address, world::StreamKind kind) const {
    for (auto it = streams.rbegin(); it != streams.rend(); ++it) {
      if ((*it)->address == address && (*it)->kind == kind) return *it;
    }
    return nullptr;
  }

  std::vector<std::shared_ptr<FakeStream>> streams;  // in the order of dialing
  bool lets_go_of_frames = false;                    // what ports say

 private:
  class Port final : public world::StreamPort {
   public:
    Port(std::shared_ptr<FakeStream> stream, const FakeDialer& dialer)
        : stream_(std::move(stream)), dialer_(dialer) {}
    ~Port() override { stream_->closing_ = true; }
    void Kick() override {}  // tests ask anyway
    void Close(absl::Status) override { stream_->closing_ = true; }
    bool LetsGoOfFrames() const override { return dialer_.lets_go_of_frames; }

   private:
    std::shared_ptr<FakeStream> stream_;
    const FakeDialer& dialer_;
  };
};

}  // namespace paceline::sdk::testing
