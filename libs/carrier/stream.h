#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/carrier/pipe.h"
#include "libs/carrier/waker.h"
#include "libs/world/port.h"
#include "libs/world/soon.h"

namespace paceline::carrier {

// One end of a stream: the carrier between a handler and a pipe. It decides nothing about the protocol.
//
// A thread that kicks the stream writes by itself; at a full pipe the loop goes on once there is room. Frames
// are read only by who has the loop's turn. OnBroken comes from there too.
//
// More than 15 members: where each of two directions stands and how the stream ends, which depends on both.
class Stream final : public world::Soon::Kickable, public std::enable_shared_from_this<Stream> {
 public:
  struct Parts {
    Side side = Side::kShard;
    std::string peer;                      // for messages
    std::unique_ptr<Pipe> pipe = nullptr;  // null: it comes later, by Loop::Give
    std::shared_ptr<world::StreamHandler> handler;
    absl::Duration stuck_max = absl::InfiniteDuration();  // a peer that makes no room for so long is given up
    // kClient: hears once, on the thread that carries, whether the shard takes the stream. UNIMPLEMENTED: it
    // has answered otherwise; DEADLINE_EXCEEDED: it does not answer; any other error: it is gone before.
    std::function<void(const absl::Status& taken)> answered = nullptr;
    std::shared_ptr<void> held = nullptr;  // let go of after the pipe
  };
  // `loop`: wakes the loop that the stream is added to. Nothing is written before it is.
  Stream(std::shared_ptr<Waker> loop, Parts parts);

  // The owner's side of the stream. At the client, destroying it closes the stream.
  static std::shared_ptr<world::StreamPort> PortAtShard(std::shared_ptr<Stream> stream);
  static std::unique_ptr<world::StreamPort> PortAtClient(std::shared_ptr<Stream> stream);

  void Kick() override ABSL_LOCKS_EXCLUDED(mutex_);
  // At the shard: sends what the handler has, then `why`. At the client: ends the stream.
  void Close(absl::Status why) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the stream; the handler hears OnBroken(why) when the loop comes by.
  void End(absl::Status why) ABSL_LOCKS_EXCLUDED(mutex_);

  // -- for the loop, with its turn --
  bool has_pipe() const { return pipe_ != nullptr; }
  const Pipe& pipe() const { return *pipe_; }
  void SetPipe(std::unique_ptr<Pipe> pipe);
  // What the handler has to send is written from now on. REQUIRES: has_pipe().
  void Begin();
  // Does a little of what there is to do.
  enum class Did {
    kNothing,  // there was nothing
    kLittle,   // it took a small frame: another one may follow
    kMuch,     // anything else: other streams have their turn
  };
  Did Step();
  // True: there is nothing to do, and the peer will ring when there is.
  bool Sleep();
  void Rise();
  // The socket reports these events, of epoll.
  void OnSocket(uint32_t events);
  // The handler has heard OnBroken: the loop may forget the stream.
  bool over() const { return told_; }
  // When Step must be called although nothing happens.
  absl::Time due() const {
    return absl::FromUnixNanos(
        std::min(cut_at_.load(std::memory_order_relaxed), stuck_at_.load(std::memory_order_relaxed)));
  }

 private:
  class ShardPort;
  class ClientPort;

  // REQUIRES: the caller has set busy_. True: the loop is to go on with the write, once there is room or at
  // its next turn. False: busy_ is reset.
  bool WriteOn() ABSL_LOCKS_EXCLUDED(mutex_);
  // True: there is something more to write, in the pipe or at the handler; adds the bytes of a new frame
  // to `begun`. False: busy_ is reset.
  bool NextToWrite(size_t& begun) ABSL_LOCKS_EXCLUDED(mutex_);
  void FinishWrites() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The write has to wait for room. False: the stream is over, and busy_ is reset.
  bool WaitForRoom() ABSL_LOCKS_EXCLUDED(mutex_);
  bool GoOnWriting() ABSL_LOCKS_EXCLUDED(mutex_);
  // True: the peer has been awaited for too long, or it has just answered.
  bool CutOff();
  bool Stuck();
  Did ReadOne();
  bool MayRead();
  // The last frame was written, and the peer has to read it: what it still sends is dropped until it is gone.
  bool Linger();
  // Looks whether the shard has answered.
  void Heed();
  void Refused(const absl::Status& why);
  bool TellEnd() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::shared_ptr<Waker> loop_;
  const Side side_;
  const std::string peer_;
  const absl::Duration stuck_max_;
  const std::shared_ptr<void> held_;  // before the pipe: let go of after it
  std::unique_ptr<Pipe> pipe_;        // its writing half: of who has set busy_; the rest: of who has the turn
  std::function<void(const absl::Status& taken)> told_answer_;
  std::shared_ptr<world::StreamHandler> handler_;

  bool said_end_ = false;  // of who has set busy_: the final status is written, or being written
  bool answered_;          // of who has the loop's turn, like told_: the shard has taken the stream
  bool told_ = false;

  std::atomic<bool> closing_{false};  // close_ is set
  std::atomic<bool> ending_{false};   // end_ is set
  std::atomic<bool> blocked_{false};  // a write waits for room; written under mutex_
  std::atomic<bool> lingers_{false};  // see Linger
  // Unix times in ns on the loop's clock; far away: never.
  std::atomic<int64_t> cut_at_;
  std::atomic<int64_t> stuck_at_;  // of a write that waits for room
  Mutex mutex_;
  // A thread writes, or a write waits for room, or the loop does not have the stream yet.
  bool busy_ ABSL_GUARDED_BY(mutex_) = true;
  bool kicked_ ABSL_GUARDED_BY(mutex_) = false;  // Kick was called meanwhile
  std::optional<absl::Status> close_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paceline::carrier
