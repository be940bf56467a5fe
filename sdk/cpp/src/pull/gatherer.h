#pragma once

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "libs/wire/frame.h"
#include "sdk/cpp/src/push/batch.h"

namespace paceline::sdk {

// Appends pieces of buffers to a Cord that shares their memory, if they are of `shares_from` bytes; adjacent
// pieces become one. The Cord is complete when the gatherer is destroyed.
class Gatherer {
 public:
  explicit Gatherer(absl::Cord& out, size_t shares_from = wire::kWorthSharing)
      : out_(out), shares_from_(shares_from) {}
  ~Gatherer() { Flush(); }

  void Add(absl::string_view bytes, const Buffer& owner) {
    if (owner == owner_ && bytes.data() == run_.data() + run_.size()) {
      run_ = absl::string_view(run_.data(), run_.size() + bytes.size());
      return;
    }
    Flush();
    run_ = bytes;
    owner_ = owner;
  }
  // The same of bytes that are not shared.
  void Copy(absl::string_view bytes) {
    Flush();
    run_ = {};
    out_.Append(bytes);
  }

 private:
  void Flush() {
    if (!run_.empty()) out_.Append(wire::Borrow(run_, owner_, shares_from_));
  }

  absl::Cord& out_;
  const size_t shares_from_;
  absl::string_view run_;
  Buffer owner_;
};

}  // namespace paceline::sdk
