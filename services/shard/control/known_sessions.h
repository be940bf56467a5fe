#pragma once

#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "libs/base/mutex.h"
#include "libs/log/record.h"
#include "libs/log/segment.h"

namespace paceline::shard {

// The SHA-256 of the secrets of the sessions that segments of this shard know, for a Hello, which comes
// before anything for one segment. A session that is not here is not forbidden; segments judge for
// themselves. Thread-safe.
class KnownSessions {
 public:
  // A segment has applied `record`, or begins with its present state.
  void Note(const log::Record& record) ABSL_LOCKS_EXCLUDED(mutex_) {
    if (const auto* opened = std::get_if<log::OpenSession>(&record)) {
      Add(opened->session, opened->secret_sha256);
    } else if (const auto* closed = std::get_if<log::Evict>(&record)) {
      MutexLock lock(&mutex_);
      digests_.erase(closed->session);
    }
  }
  void Note(const log::Segment& segment) ABSL_LOCKS_EXCLUDED(mutex_) {
    for (const auto& [id, session] : segment.sessions()) Add(id, session.secret_sha256);
  }

  // Empty: it has none, or is not known.
  std::string DigestOf(SessionId session) const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    const auto it = digests_.find(session);
    return it == digests_.end() ? "" : it->second;
  }

 private:
  // An image may bring back what another segment has closed.
  static constexpr size_t kMax = 64 * 1024;

  void Add(SessionId session, const std::string& digest) ABSL_LOCKS_EXCLUDED(mutex_) {
    if (digest.empty()) return;
    MutexLock lock(&mutex_);
    if (digests_.size() >= kMax) digests_.erase(digests_.begin());
    digests_.emplace(session, digest);
  }

  mutable Mutex mutex_;
  std::map<SessionId, std::string> digests_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paceline::shard
