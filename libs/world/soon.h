#pragma once

#include <memory>
#include <vector>

namespace paceline::world {

// Collects the kicks that StreamPort::KickSoon puts off. A thread that takes events from a queue has one of
// these. It kicks the collected streams when its queue is empty, or after kEvents events at the latest, so
// that the answers to many events travel in few frames. It also knows whether frames wait for this thread.
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

  // A carrier calls it before it hands a frame to its handler on this thread; and on its Soon when it finds
  // nothing to do.
  static void Frame();
  void Idle() { frames_ = 0; }
  // True: this thread has handled a frame before the present one without a pause between. Who sends them has
  // several under way. False on a thread without a Soon, and where carriers do not call Frame.
  static bool Pressed();

 private:
  std::vector<std::shared_ptr<Kickable>> streams_;
  int frames_ = 0;  // since Idle
  int events_ = 0;
};

}  // namespace paceline::world
