// What a shard's folder says of itself, as the shard comes to know it.
#include "absl/strings/str_cat.h"
#include "services/shard/folder.h"
#include "services/shard/shard.h"

namespace paceline::shard {

absl::Status Shard::CheckDisk(ShardId self, uint64_t cluster) const {
  const DiskOwner& owner = contents_.owner;
  if (disk_ == nullptr || owner.cluster == 0 || (owner.cluster == cluster && owner.shard == self)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("--data-dir: it has the data of shard ", owner.shard.v, " of cluster ", owner.cluster,
                   "; this is shard ", self.v, " of cluster ", cluster,
                   ": give each shard the folder it had before, or an empty one"));
}

void Shard::NoteTerm(uint64_t term) {
  std::shared_ptr<const View> now;
  {
    MutexLock lock(&mutex_);
    if (term <= view_->term) return;
    now = Publish([&](View& view) { view.term = term; });
  }
  NoteKnown(*now);
}

// Before the folder has an owner it has nothing, and is to say nothing.
void Shard::NoteKnown(const View& view) {
  if (disk_ == nullptr || !disk_marked_ || view.emptied) return;
  v1::Known known;
  known.set_map_version(view.map->version().v);
  known.set_term(view.term);
  known.set_incarnation(view.self.incarnation.v);
  engine::Batch batch;
  batch.Add(KnownNote(known));
  disk_->Write(std::move(batch));
}

void Shard::EmptyFolder(const v1::EmptyFolderRequest& request,
                        std::function<void(absl::StatusOr<v1::EmptyFolderReply>)> done) {
  if (absl::Status meant = CheckMeant(request.cluster(), request.has_target(), request.target());
      !meant.ok()) {
    return done(std::move(meant));
  }
  if (const std::string old = WhyTooOld(request.map_version()); !old.empty()) {
    return done(absl::UnavailableError(old));
  }
  std::shared_ptr<const View> now;
  {
    MutexLock lock(&mutex_);
    now = Publish([](View& view) { view.emptied = view.stopping = true; });
  }
  if (disk_ == nullptr) return done(v1::EmptyFolderReply());
  disk_->Write(Emptied(now->map == nullptr ? contents_.owner.ring_bits : now->map->ring_bits()),
               [done = std::move(done)] { done(v1::EmptyFolderReply()); });
}

}  // namespace paceline::shard
