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

// kInvalidArgument: `addresses` is not a list HOST:PORT[,HOST:PORT…].
absl::Status CheckCoordinators(absl::string_view addresses);

// The coordinators of a cluster, one of which leads, and the choice of the one to call: the one that answered
// last, until it turns out not to lead or not to respond. One call is one try; the caller retries, and is
// then given the next coordinator. Thread-safe.
class Coordinators {
 public:
  // One coordinator, for one call. Valid as long as the pointer is held.
  struct One {
    std::string address;
    std::unique_ptr<v1::Coordinator::Stub> stub;
  };

  // `addresses`: HOST:PORT[,HOST:PORT…]. The constructor does not connect.
  explicit Coordinators(absl::string_view addresses);

  std::shared_ptr<const One> Current() const;
  const std::string& addresses() const { return addresses_; }
  size_t size() const { return listed_.size(); }
  // All listed coordinators, in order.
  const std::vector<std::shared_ptr<const One>>& listed() const { return listed_; }

  // The status of a finished call to `asked`; messages of UNAVAILABLE and DEADLINE_EXCEEDED name the
  // coordinator. If it did not answer, or said that it does not lead, the next call goes to another one: to
  // the leader that it named, else to the next of the list. A recent failure of another coordinator is added
  // to the message of one that does not lead.
  absl::Status Heard(const One& asked, const grpc::Status& status, const grpc::ClientContext& context);

 private:
  void MoveOn(const One& from, const std::string& leader);

  const std::string addresses_;
  std::vector<std::shared_ptr<const One>> listed_;
  mutable Mutex mutex_;
  std::shared_ptr<const One> current_;
  size_t next_ = 0;         // of the list
  std::string last_cause_;  // the last failure of a coordinator other than standing by
  absl::Time last_cause_at_ = absl::InfinitePast();
};

}  // namespace paceline::rpc
