#pragma once

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "libs/carrier/loop.h"
#include "libs/carrier/test_util/stream_ends.h"
#include "libs/rpc/listener.h"
#include "libs/shm/dial.h"
#include "libs/shm/server.h"
#include "libs/tcp/dialer.h"
#include "libs/tcp/server.h"

// Streams without gRPC, over real sockets and real shared memory: one test for all carriers.
namespace paceline::dial {

using NewHandler = std::function<std::shared_ptr<world::AcceptedStream>(world::StreamKind kind)>;

// What serves the streams of one carrier, and dials them.
class Way {
 public:
  virtual ~Way() = default;
  virtual void Serve(int threads, absl::Duration spin, NewHandler handler) = 0;
  virtual void StopServing() = 0;
  virtual int64_t open() const = 0;
  virtual std::unique_ptr<world::StreamPort> Dial(const std::shared_ptr<carrier::Loop>& loop,
                                                  std::shared_ptr<world::StreamHandler> handler) = 0;
};

// With rings as small as they may be, so that they are full all the time.
class NearWay final : public Way {
 public:
  NearWay() {
    char name[] = "/tmp/paceline-shm-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~NearWay() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }
  void Serve(int threads, absl::Duration spin, NewHandler handler) override {
    server_ = *shm::Server::Start({.path = folder_ + "/socket", .threads = threads, .spin_max = spin},
                                  std::move(handler));
  }
  void StopServing() override { server_.reset(); }
  int64_t open() const override { return server_->counts()->open; }
  std::unique_ptr<world::StreamPort> Dial(const std::shared_ptr<carrier::Loop>& loop,
                                          std::shared_ptr<world::StreamHandler> handler) override {
    constexpr shm::RingSizes kTiny{.to_shard = shm::kRingBytesMin, .to_client = shm::kRingBytesMin};
    auto port =
        shm::Dial(*loop, folder_ + "/socket", world::StreamKind::kPush, std::move(handler), {.sizes = kTiny});
    return port.ok() ? *std::move(port) : nullptr;
  }

 private:
  std::string folder_;
  std::unique_ptr<shm::Server> server_;
};

class DirectWay final : public Way {
 public:
  ~DirectWay() override { StopServing(); }
  void Serve(int threads, absl::Duration spin, NewHandler handler) override {
    server_ = std::make_unique<tcp::DirectServer>(
        tcp::DirectServer::Options{.threads = threads, .spin_max = spin, .counts = counts_},
        std::move(handler));
    listener_ = *rpc::Listener::Open("127.0.0.1:0");
    listener_->Start(nullptr, [this](carrier::Descriptor connection, const tcp::Preamble& preamble) {
      server_->Take(std::move(connection), preamble);
    });
  }
  void StopServing() override {
    listener_.reset();
    server_.reset();
  }
  int64_t open() const override { return counts_->open; }
  std::unique_ptr<world::StreamPort> Dial(const std::shared_ptr<carrier::Loop>& loop,
                                          std::shared_ptr<world::StreamHandler> handler) override {
    dialer_ = std::make_unique<tcp::DirectDialer>(none_, loop);
    return dialer_->Dial(listener_->address(), world::StreamKind::kPush, std::move(handler));
  }

 private:
  class None final : public world::Dialer {
    std::unique_ptr<world::StreamPort> Dial(const std::string&, world::StreamKind,
                                            std::shared_ptr<world::StreamHandler>) override {
      return nullptr;
    }
  };

  const std::shared_ptr<tcp::DirectServer::Counts> counts_ = std::make_shared<tcp::DirectServer::Counts>();
  std::unique_ptr<tcp::DirectServer> server_;
  std::unique_ptr<rpc::Listener> listener_;
  None none_;
  std::unique_ptr<tcp::DirectDialer> dialer_;
};

inline std::unique_ptr<Way> MakeWay(const std::string& name) {
  if (name == "Near") return std::make_unique<NearWay>();
  return std::make_unique<DirectWay>();
}

}  // namespace paceline::dial
