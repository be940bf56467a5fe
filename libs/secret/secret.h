#pragma once

#include <atomic>
#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "libs/world/random.h"

// Secrets of sessions: whoever opened a session shows its secret, and whoever keeps the session's state holds
// the SHA-256 of it. A secret goes into no log, no status, no metric and no history.
namespace paceline::secret {

inline constexpr size_t kDigestBytes = 32;

// A new secret: 128 bits of `random`, which nobody may be able to guess (world::SystemRandom), as 32
// hexadecimal digits.
std::string Draw(world::Random& random);

// 32 bytes, for any secret; of an empty one too.
std::string Sha256(absl::string_view secret);

// Takes as long wherever the two differ, if they are of one length.
bool Equal(absl::string_view a, absl::string_view b);

// What a stream's caller has shown, for the life of the stream and of one session. Thread-safe.
class Shown {
 public:
  explicit Shown(absl::string_view token) : digest_(Sha256(token)) {}

  // Whether this is the secret whose SHA-256 a session holds; a session without one is anybody's. Compares
  // until it was right once.
  bool Opens(absl::string_view held) const {
    if (opened_.load(std::memory_order_relaxed) || held.empty()) return true;
    if (!Equal(digest_, held)) return false;
    opened_.store(true, std::memory_order_relaxed);
    return true;
  }
  // Some session's was found to be this one: there is nothing to compare any more.
  bool opened() const { return opened_.load(std::memory_order_relaxed); }

 private:
  const std::string digest_;
  mutable std::atomic<bool> opened_{false};
};

}  // namespace paceline::secret
