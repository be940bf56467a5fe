#pragma once

#include <cstdint>

#include "services/shard/disk/disk.h"

namespace paceline::shard {

// What is written is safe at once; how much is not written yet is up to the test.
class TestDisk final : public Disk {
 public:
  void Write(engine::Batch, Synced synced) override {
    if (synced) synced();
  }
  uint64_t pending_bytes() const override { return pending; }
  Health health() const override { return standing; }
  uint64_t pending = 0;
  Health standing;
};

}  // namespace paceline::shard
