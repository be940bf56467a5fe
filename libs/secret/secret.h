#pragma once

#include <atomic>
#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "libs/world/random.h"

// Secrets of sessions. The client that opened a session shows its secret; the processes that keep the
// session's state hold only its SHA-256. A secret goes into no log, no status, no metric and no history.
namespace paceline::secret {

inline constexpr size_t kDigestBytes = 32;

// A new secret: 128 bits of `random`, which nobody may be able to guess (world::SystemRandom), as 32
// hexadecimal digits.
std::string Draw(world::Random& random);

// 32 bytes. Of an empty secret too.
std::string Sha256(absl::string_view secret);

// Constant time for two texts of the same length: it does not depend on where they differ.
bool Equal(absl::string_view a, absl::string_view b);

// The secret that a stream's caller has shown. Lives as long as the stream, which serves one session.
// Thread-safe.
class Shown {
 public:
  explicit Shown(absl::string_view token) : digest_(Sha256(token)) {}

  // True if this is the secret whose SHA-256, `held`, a session holds; a session without a digest is open to
  // anybody. After the first match it no longer compares.
  bool Opens(absl::string_view held) const {
    if (opened_.load(std::memory_order_relaxed) || held.empty()) return true;
    if (!Equal(digest_, held)) return false;
    opened_.store(true, std::memory_order_relaxed);
    return true;
  }
  // True once a session's digest has matched: nothing is compared any more.
  bool opened() const { return opened_.load(std::memory_order_relaxed); }

 private:
  const std::string digest_;
  mutable std::atomic<bool> opened_{false};
};

}  // namespace paceline::secret
