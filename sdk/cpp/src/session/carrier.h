#pragma once

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"

namespace paceline::sdk {

// Carries frames on a thread that would otherwise only wait for them. The thread that waits for a future asks
// the carrier of the client that it entered last.
class Carrier {
 public:
  Carrier();
  virtual ~Carrier() = default;
  Carrier(const Carrier&) = delete;

  // Carries until `done()`, or until it seems better to sleep: some tens of microseconds, as a rule.
  // Thread-safe.
  virtual void CarryUntil(absl::FunctionRef<bool()> done) = 0;

  uint64_t id() const { return id_; }

 private:
  const uint64_t id_;  // never used again, as an address may be
};

// This thread has entered a client that has this carrier.
void ThisThreadMayCarry(const std::shared_ptr<Carrier>& carrier);

}  // namespace paceline::sdk
