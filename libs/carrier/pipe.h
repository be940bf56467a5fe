#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "libs/carrier/frames.h"

namespace paceline::carrier {

enum class Side { kShard, kClient };  // kClient: the end that has dialed, be it a shard

// What moves the bytes of one stream: rings in shared memory, or a TCP connection. It has a socket that tells
// a loop when to look again, and decides nothing about when the stream ends.
class Pipe {
 public:
  virtual ~Pipe() = default;

  // -- writing: one thread at a time --

  // REQUIRES: !writing().
  virtual void Begin(FrameKind kind, absl::Cord bytes) = 0;
  // A frame was begun and is not written to its end.
  virtual bool writing() const = 0;
  enum class Wrote {
    kAll,
    kFull,     // there is no room: see AwaitRoom
    kDamaged,  // the peer has broken the rules, or is gone
  };
  // Writes what there is room for.
  virtual Wrote WriteOn() = 0;
  // Nothing more is to be written. False: the peer may miss what was written last if the pipe ends now, so
  // Discard what comes until it is gone.
  virtual bool FinishWrites() = 0;

  // -- of a writer that found no room; with the loop's turn --

  // True: there is none, and the socket will tell when there is.
  virtual bool AwaitRoom() = 0;
  // True: WriteOn gets somewhere, if only to find out that the pipe is damaged.
  virtual bool HasRoom() = 0;
  // The writer looks by itself again.
  virtual void RiseWriter() = 0;

  // -- reading, and the socket: with the loop's turn --

  enum class Got {
    kNothing,
    kPiece,    // of a frame that is not complete
    kFrame,    // a whole one: *frame
    kEnd,      // *frame holds the final status
    kDamaged,  // the peer has broken the rules: problem() says how
  };
  // The bytes of *frame are a private copy.
  virtual Got Next(absl::Cord* frame) = 0;
  // Next may get somewhere.
  virtual bool HasBytes() = 0;
  // The next frame has been begun.
  virtual bool amid_frame() const = 0;
  // True: there is nothing to read, and the socket will tell when there is.
  virtual bool Sleep() = 0;
  // The reader is awake.
  virtual void Rise() = 0;
  virtual const absl::Status& problem() const = 0;
  virtual void Discard() = 0;

  virtual int socket() const = 0;
  // The socket reports `events`, of epoll.
  virtual void OnSocket(uint32_t events) = 0;
  // The socket is all that tells whether there is something to read.
  virtual bool needs_socket() const = 0;
  // Set once the peer is gone: no more comes than what HasBytes tells of.
  virtual const std::optional<absl::Status>& gone() const = 0;
  // At the end that has dialed: what the other end says to that; nullopt: nothing yet.
  virtual const std::optional<absl::Status>& answer() const = 0;
  // Ends the connection, and lets go of the frame that was being written. REQUIRES: nobody writes.
  virtual void Shut() = 0;
};

}  // namespace paceline::carrier
