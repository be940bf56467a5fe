#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "libs/world/task_thread.h"
#include "services/coordinator/core_host.h"
#include "services/coordinator/kubernetes/scale.h"
#include "services/coordinator/metadata/placement/wanted_shards.h"

namespace paceline::coordinator {

// Reads the scale on a thread of its own. Thread-safe.
class StatefulSet final : public WantedShards {
 public:
  // `host` must outlive this object.
  StatefulSet(CoreHost& host, KubernetesApi api, std::string space, std::string name)
      : host_(host), api_(std::move(api)), space_(std::move(space)), name_(std::move(name)) {}

  const std::string& name() const override { return name_; }
  void Read(std::function<void(absl::StatusOr<uint32_t>)> done) override {
    thread_.Run([this, done = std::move(done)] {
      const absl::StatusOr<uint32_t> wanted = ReadScale(api_, space_, name_);
      host_.Visit([&](Candidate&) { done(wanted); });
    });
  }
  // Returns when the call under way has ended; begins no other.
  void Stop() { thread_.Stop(); }

 private:
  CoreHost& host_;
  const KubernetesApi api_;
  const std::string space_;
  const std::string name_;
  world::TaskThread thread_;
};

}  // namespace paceline::coordinator
