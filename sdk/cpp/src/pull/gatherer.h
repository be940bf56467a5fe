#pragma once

#include <memory>

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "libs/wire/frame.h"
#include "sdk/cpp/src/push/batch.h"

namespace paceline::sdk {

// Appends pieces of batches to a Cord that shares their memory; adjacent pieces become one. The Cord is
// complete when the gatherer is destroyed.
class Gatherer {
 public:
  explicit Gatherer(absl::Cord& out) : out_(out) {}
  ~Gatherer() { Flush(); }

  void Add(absl::string_view bytes, const std::shared_ptr<const Batch>& owner) {
    if (owner == owner_ && bytes.data() == run_.data() + run_.size()) {
      run_ = absl::string_view(run_.data(), run_.size() + bytes.size());
      return;
    }
    Flush();
    run_ = bytes;
    owner_ = owner;
  }

 private:
  void Flush() {
    if (!run_.empty()) out_.Append(wire::Borrow(run_, owner_));
  }

  absl::Cord& out_;
  absl::string_view run_;
  std::shared_ptr<const Batch> owner_;
};

}  // namespace paceline::sdk
