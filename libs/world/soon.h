#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace paceline::world {

// Collects the kicks that StreamPort::KickSoon puts off. A thread that takes events from a queue has one of
// these. It kicks the collected streams when its queue is empty, or after kEvents events at the latest, so
// that the answers to many events travel in few frames. It also counts the times when there was nothing to
// do.
//
// Belongs to the thread that made it; lives in one scope.
class Soon {
 public:
  class Kickable {
   public:
    virtual ~Kickable() = default;
    virtual void Kick() = 0;
  };
  // A kick is put off for no more events than these.
  static constexpr int kEvents = 8;

  // REQUIRES: this thread has none.
  Soon();
  // Kicks the streams that are left.
  ~Soon();
  Soon(const Soon&) = delete;

  // Puts the kick off; several calls for one stream make one kick. On a thread without a Soon it kicks at
  // once.
  static void Kick(std::shared_ptr<Kickable> stream);

  // True: no kick is waiting, so the thread need not hurry to look for more events.
  bool empty() const { return streams_.empty(); }
  // Call after each event that was taken.
  void Taken();
  void KickAll();

  // The thread has found nothing to do.
  void OnPause() { ++pauses_; }
  // How often it has; 0 on a thread without a Soon. Frames of one stream without a pause between them come
  // from somebody who has several under way.
  static uint64_t Pauses();

 private:
  std::vector<std::shared_ptr<Kickable>> streams_;
  uint64_t pauses_ = 1;
  int events_ = 0;
};

}  // namespace paceline::world
