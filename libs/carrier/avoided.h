#pragma once

#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"

namespace paceline::carrier {

// The addresses that a dialer leaves to another one for a while: they did not take a stream. Thread-safe.
class Avoided {
 public:
  // An address is avoided for this long.
  static constexpr absl::Duration kAvoid = absl::Seconds(10);

  bool Has(const std::string& address) ABSL_LOCKS_EXCLUDED(mutex_);
  void Add(const std::string& address) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Mutex mutex_;
  std::map<std::string, absl::Time> until_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paceline::carrier
