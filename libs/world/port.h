#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"

namespace paceline::world {

// The seam between protocol code and the carrier of its frames: gRPC in production, a faulty in-memory stream
// in simulation. A stream delivers frames in order, or breaks; of the frames sent before a break any suffix
// may be lost. There is no order across streams.
//
// Sending is pulled, not pushed: the carrier asks for the next frame when it can write one. So a stream never
// buffers more than one outgoing frame, the owner chooses the most urgent one as late as possible, and
// everything that gathers during a write travels as one frame.
class StreamHandler {
 public:
  virtual ~StreamHandler() = default;

  // False: no further frame is to be read for now. The carrier, which asks before it reads one, asks again
  // when StreamPort::ReadOn() is called. It holds a lock of its own: do not call the port from within.
  virtual bool TakesFrame() { return true; }

  // The next incoming frame. Calls do not overlap for one stream. The bytes may be borrowed from the
  // carrier's receive buffers and live as long as the Cord does.
  virtual void OnFrame(absl::Cord frame) = 0;

  // Moves the next outgoing frame to `frame`; false: there is none now. After false the carrier asks again
  // only when Kick() is called. May run on any thread, never overlapping itself for one stream.
  virtual bool NextFrame(absl::Cord* frame) = 0;

  // The last call of a stream: the peer closed it, the connection broke, or Close() took effect.
  virtual void OnBroken(absl::Status why) = 0;
};

// The carrier's side, given to the handler's owner. Thread-safe. Destroying it closes the stream; the handler
// hears OnBroken later, so it must be kept alive by the carrier (which holds it by shared_ptr).
class StreamPort {
 public:
  virtual ~StreamPort() = default;

  // There may be something to send. Cheap when a write is already under way. The carrier may call NextFrame
  // from within: do not hold a lock that NextFrame takes.
  virtual void Kick() = 0;

  // The same, but may be delayed until the frames that have already arrived are handled (soon.h). The answers
  // to several frames, or of many segments, then travel as one.
  virtual void KickSoon() { Kick(); }

  // The handler may take frames again (StreamHandler::TakesFrame). Only an accepted stream's carrier heeds
  // either of them. The carrier may call TakesFrame, and later OnFrame on another thread.
  virtual void ReadOn() {}

  // Soon after the stream has ended the carrier lets go of every frame that it took, whatever the peer does.
  // A frame may then share memory that somebody wants back.
  virtual bool LetsGoOfFrames() const { return false; }

  // Ends the stream. At a server, `why` becomes the stream's final status. Unless `why` is OK no further
  // frame is delivered, and a peer that does not read the write under way is soon cut off.
  virtual void Close(absl::Status why) = 0;
};

// A handler at the accepting end.
class AcceptedStream : public StreamHandler {
 public:
  // Called once, before the first frame. The stream drops the port in OnBroken.
  virtual void Attach(std::shared_ptr<StreamPort> port) = 0;
  // The peer will send no more frames but still reads: send the answers that are due, then Close with OK.
  virtual void OnFinished() = 0;
};

// Opens streams to shards, for the SDK and for other shards.
enum class StreamKind {
  kPush,  // PushPull of the wire: parts with and without their rows in return, and ticks
  kPull,
  kSubscribe,
  kReplicate,  // between shards
};

class Dialer {
 public:
  virtual ~Dialer() = default;
  // Starts to open a stream to the shard at `address` (host:port). Never blocks; a failure arrives as
  // OnBroken.
  virtual std::unique_ptr<StreamPort> Dial(const std::string& address, StreamKind kind,
                                           std::shared_ptr<StreamHandler> handler) = 0;
};

}  // namespace paceline::world
