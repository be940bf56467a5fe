#pragma once

#include <memory>
#include <vector>

namespace paceline::world {

// What StreamPort::KickSoon puts off. A thread that takes events from a queue has one of these, and kicks
// what gathered when nothing more has come for it, or after kEvents of them at the latest: what many events
// have to say then travels in few frames.
//
// Belongs to the thread that made it, and to its scope.
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
  // Kicks what is left.
  ~Soon();
  Soon(const Soon&) = delete;

  // Puts the kick off, once for however many calls; on a thread that has no Soon it is done at once.
  static void Kick(std::shared_ptr<Kickable> stream);

  // Nothing is put off: there is no hurry to look whether more has come.
  bool empty() const { return streams_.empty(); }
  // An event was taken.
  void Taken();
  void KickAll();

 private:
  std::vector<std::shared_ptr<Kickable>> streams_;
  int events_ = 0;
};

}  // namespace paceline::world
