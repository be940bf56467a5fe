#pragma once

#include <cstdint>

#include "services/shard/disk/disk.h"

namespace paceline::shard {

// Batches are safe as soon as they are written; the test says how many bytes are not written yet.
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
