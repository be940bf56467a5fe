#include "libs/shm/near_dialer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/shm/dial.h"
#include "libs/shm/handover.h"
#include "libs/world/real_clock.h"

namespace paceline::shm {

// Says once of each shard why its streams go over TCP.
class NearDialer::Notices {
 public:
  explicit Notices(Say say) : say_(std::move(say)) {}
  // It cannot be dialed. One that could be before is most likely dead, and needs no notice.
  void Far(const std::string& address, const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_) {
    if (!WasNear(address)) SayOnce(address, why);
  }
  void Refused(const std::string& address, const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_) {
    SayOnce(address, why);
  }
  void Near(const std::string& address) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (near_.size() < kMost) near_.insert(address);
  }

 private:
  static constexpr size_t kMost = 1000;

  bool WasNear(const std::string& address) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return near_.contains(address);
  }
  void SayOnce(const std::string& address, const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      MutexLock lock(&mutex_);
      if (said_.size() >= kMost || !said_.insert(address).second) return;
    }
    say_(absl::StrCat("streams to ", address, " go over TCP and not over shared memory: ", why.message()));
  }

  const Say say_;
  Mutex mutex_;
  std::set<std::string> said_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> near_ ABSL_GUARDED_BY(mutex_);
};

NearDialer::NearDialer(world::Dialer& far, std::string folder, Say say, carrier::Loop& loop,
                       absl::Duration stuck_max)
    : far_(far),
      loop_(loop),
      folder_(std::move(folder)),
      stuck_max_(stuck_max),
      notices_(std::make_shared<Notices>(std::move(say))) {}

std::unique_ptr<world::StreamPort> NearDialer::Dial(const std::string& address, world::StreamKind kind,
                                                    std::shared_ptr<world::StreamHandler> handler) {
  if (!avoided_->Has(address)) {
    absl::StatusOr<std::unique_ptr<world::StreamPort>> near = DialNear(address, kind, handler);
    if (near.ok()) {
      near_.fetch_add(1, std::memory_order_relaxed);
      notices_->Near(address);
      return *std::move(near);
    }
    notices_->Far(address, near.status());
  }
  return far_.Dial(address, kind, std::move(handler));
}

absl::StatusOr<std::unique_ptr<world::StreamPort>> NearDialer::DialNear(
    const std::string& address, world::StreamKind kind,
    const std::shared_ptr<world::StreamHandler>& handler) {
  ABSL_ASSIGN_OR_RETURN(const std::string path, SocketPath(folder_, address));
  return shm::Dial(loop_, path, kind, handler,
                   {.stuck_max = stuck_max_,
                    .refused = [avoided = avoided_, notices = notices_, address](const absl::Status& why) {
                      avoided->Add(address);
                      notices->Refused(address, why);
                    }});
}

}  // namespace paceline::shm
