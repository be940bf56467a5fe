#pragma once

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "paceline/v1/coordinator.grpc.pb.h"

namespace paceline::rpc {

// kInvalidArgument: `addresses` is no list HOST:PORT[,HOST:PORT…].
absl::Status CheckCoordinators(absl::string_view addresses);

// The coordinators of a cluster, of which one leads, and which of them to ask: the one that answered last,
// until it turns out not to lead or not to be there. One call is one try; trying again, at the next one then,
// is the caller's business. Thread-safe.
class Coordinators {
 public:
  // One of them, for one call. Good as long as it is held.
  struct One {
    std::string address;
    std::unique_ptr<v1::Coordinator::Stub> stub;
  };

  // `addresses`: HOST:PORT[,HOST:PORT…]. Does not connect yet.
  explicit Coordinators(absl::string_view addresses);

  std::shared_ptr<const One> Current() const;
  const std::string& addresses() const { return addresses_; }
  size_t size() const { return listed_.size(); }
  // All that were listed, in that order.
  const std::vector<std::shared_ptr<const One>>& listed() const { return listed_; }

  // What a call at `asked` ended with, in our terms: UNAVAILABLE and DEADLINE_EXCEEDED name the coordinator.
  // Lets the next call go to another one if this one did not answer, or said that it does not lead: to the
  // one it says does, else the next of the list. What stood in the way before is told along with "I do not
  // lead".
  absl::Status Heard(const One& asked, const grpc::Status& status, const grpc::ClientContext& context);

 private:
  void MoveOn(const One& from, const std::string& leader);

  const std::string addresses_;
  std::vector<std::shared_ptr<const One>> listed_;
  mutable Mutex mutex_;
  std::shared_ptr<const One> current_;
  size_t next_ = 0;         // of the list
  std::string last_cause_;  // what was wrong with one that did not just stand by
  absl::Time last_cause_at_ = absl::InfinitePast();
};

}  // namespace paceline::rpc
