// The shard keeps the notes of its folder up to date.
#include <algorithm>
#include <atomic>
#include <memory>

#include "absl/strings/str_cat.h"
#include "services/shard/disk/folder.h"
#include "services/shard/shard.h"

namespace paceline::shard {

absl::Status Shard::CheckDisk(ShardId self, uint64_t cluster) const {
  const DiskOwner& owner = contents_.owner;
  if (context_.disk() == nullptr || owner.cluster == 0 || (owner.cluster == cluster && owner.shard == self)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("--data-dir: it has the data of shard ", owner.shard.v, " of cluster ", owner.cluster,
                   "; this is shard ", self.v, " of cluster ", cluster,
                   ": give each shard the folder it had before, or an empty one"));
}

void Shard::NoteTerm(uint64_t term) {
  if (term <= view()->term) return;
  context_.Publish([&](View& view) { view.term = std::max(view.term, term); });
  NoteKnown();
}

// The first record may be written as soon as a view with a map is published: the note goes before it, since a
// start refuses records of a folder without an owner.
std::shared_ptr<const View> Shard::PublishOwned(const std::function<void(View&)>& change) {
  MutexLock lock(&folder_mutex_);
  View next = *view();
  change(next);
  NoteOwner(next);
  if (next.map != nullptr && view()->map == nullptr) MakeHosts(*next.map);
  return context_.Publish(change);
}

void Shard::NoteOwner(const View& view) {
  if (view.map == nullptr || view.self.incarnation == Incarnation()) return;
  if (context_.disk() == nullptr || view.emptied || disk_marked_.exchange(true)) return;
  engine::Batch batch;
  batch.Add(NoteOf({.cluster = view.cluster, .shard = view.self.shard, .ring_bits = view.map->ring_bits()}));
  context_.disk()->Write(std::move(batch));
}

// A folder without an owner has no data and gets no note.
void Shard::NoteKnown() {
  MutexLock lock(&folder_mutex_);
  const auto now = view();
  if (context_.disk() == nullptr || !disk_marked_ || now->emptied) return;
  v1::Known known;
  known.set_map_version(now->map->version().v);
  known.set_term(now->term);
  known.set_incarnation(now->self.incarnation.v);
  known.set_catalogue_version(now->catalogue->version().v);
  engine::Batch batch;
  batch.Add(KnownNote(known));
  context_.disk()->Write(std::move(batch));
}

void Shard::EmptyFolder(const v1::EmptyFolderRequest& request,
                        std::function<void(absl::StatusOr<v1::EmptyFolderReply>)> done) {
  if (absl::Status meant = CheckMeant(request); !meant.ok()) return done(std::move(meant));
  if (const std::string old = WhyTooOld(request.map_version()); !old.empty()) {
    return done(absl::UnavailableError(old));
  }
  // The call may be late: the shard may have become a member since it was sent, or be about to. No copy
  // begins from here on, so those that the look finds are all there are.
  if (emptying_.exchange(true))
    return done(absl::UnavailableError(
        absl::StrCat(options().name, " has not answered an earlier call to mark its folder; ask again")));
  context_.Publish([](View& view) { view.takes_copies = false; });
  auto member_of = std::make_shared<std::atomic<int64_t>>(-1);
  const auto look = [member_of](SegmentHost& host) {
    if (host.MayBeMember()) *member_of = host.id().v;
  };
  context_.ForEachSegment(look, [this, member_of, done = std::move(done)]() mutable {
    if (const int64_t segment = *member_of; segment >= 0) {
      context_.Publish([](View& view) { view.takes_copies = !view.emptied; });
      emptying_ = false;
      return done(absl::FailedPreconditionError(
          absl::StrCat(options().name, " is a member of segment ", segment,
                       ", or becomes one: its folder is emptied once other shards have its rows")));
    }
    GiveUpFolder(std::move(done));
  });
}

void Shard::GiveUpFolder(std::function<void(absl::StatusOr<v1::EmptyFolderReply>)> done) {
  int ring_bits = contents_.owner.ring_bits;
  {
    MutexLock lock(&folder_mutex_);
    const auto now = context_.Publish([](View& view) { view.emptied = view.stopping = true; });
    if (now->map != nullptr) ring_bits = now->map->ring_bits();
  }
  // Executors may be about to write by the earlier view. They have done so once each has run this.
  const auto write = [this, ring_bits, done = std::move(done)] {
    const auto end = [this, done] {
      emptying_ = false;
      done(v1::EmptyFolderReply());
    };
    if (context_.disk() == nullptr) return end();
    context_.disk()->Write(Emptied(ring_bits), end);
  };
  context_.ForEachSegment([](SegmentHost&) {}, write);
}

}  // namespace paceline::shard
