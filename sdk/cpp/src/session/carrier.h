#pragma once

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"

namespace paceline::sdk {

// Carries frames on a thread that would otherwise only wait for them. The thread that waits for a future asks
// the carrier of the client that it entered last.
class Carrier {
 public:
  using DoneFn = absl::FunctionRef<bool()>;

  Carrier();
  virtual ~Carrier() = default;
  Carrier(const Carrier&) = delete;

  // Carries until `done()`, or until it seems better to sleep. Returns done(). If not, the thread must sleep
  // until then, and then call Awake. `done` may be called by other threads meanwhile. Thread-safe.
  virtual bool CarryUntil(const DoneFn& done) = 0;
  virtual void Awake(const DoneFn& done) = 0;
  // This thread may have sent frames, and is not about to wait for their answers.
  virtual void OnSent() = 0;

  uint64_t id() const { return id_; }

 private:
  const uint64_t id_;  // never used again, as an address may be
};

// This thread has entered a client that has this carrier; `shared` gives it if the thread did not know it.
void ThisThreadMayCarry(const Carrier& carrier, absl::FunctionRef<std::shared_ptr<Carrier>()> shared);

// The scope of a call that starts an operation and waits for its end: what it sends is answered to this
// thread, so no other one need be woken.
class BlockingCall {
 public:
  // `carrier` must outlive it.
  explicit BlockingCall(Carrier& carrier);
  ~BlockingCall();
  BlockingCall(const BlockingCall&) = delete;

  static bool IsHere();
  // This thread may have sent frames. False: it is in no blocking call, and must tell the carrier itself. In
  // a blocking call it waits for the answers, or else the call tells the carrier when it ends.
  static bool Sent();
  // This thread waits.
  static void Waits();

 private:
  Carrier& carrier_;
  BlockingCall* const outer_;
  bool sent_ = false;  // since it waited last
};

}  // namespace paceline::sdk
