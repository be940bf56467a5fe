#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tests/sim/sim_client.h"

namespace paceline::sim {

// A worker: in each clock it adds to counters, reads, assigns its clock to a key of its own, and ticks, until
// the job's clocks are done. If it is evicted or killed, it comes back as a new session.
class Worker final : public SimClient {
 public:
  Worker(World& world, SimCoordinator& coordinator, std::string name, std::string job, WorkerPlan plan,
         uint32_t together, uint64_t clocks);

  void Begin();
  // It ends after this clock, in good order …
  void Stop() { clocks_ = 0; }
  // … or at once, silently, and does not come back.
  void Vanish();
  // True: it has done its work and has left.
  bool done() const { return done_; }

 private:
  void OnReady() override;
  void OnEnded() override;
  void Work();
  // -- the work queue --
  void OpenQueue();
  void AwaitItem();
  void Train();
  void LeaveQueue();
  void Read();
  void ReadFolded();
  void EndClock();
  void Flush();
  void Leave();
  void Linger();

  const WorkerPlan plan_;
  const uint32_t together_;
  uint64_t clocks_;
  bool started_ = false;
  Clock start_ = 0;
  bool died_ = false;
  bool left_ = false;
  bool done_ = false;
  uint32_t queue_ = 0;  // 0: not open
  std::optional<WorkItem> item_;
  uint64_t next_example_ = 0;  // of item_
  bool complete_ = false;      // the queue
};

// A reader without a clock: a few reads and pushes in a session, one session after the other, until told to
// stop.
class Reader final : public SimClient {
 public:
  using SimClient::SimClient;

  void Begin() { Start(/*workers=*/0, Ssp{}, Ssp{}); }
  void Stop() { stopped_ = true; }
  bool done() const { return stopped_ && !up(); }

 private:
  void OnReady() override;
  void OnEnded() override;
  void Round();
  Clock Known() const;

  bool stopped_ = false;
  int rounds_ = 0;
};

}  // namespace paceline::sim
