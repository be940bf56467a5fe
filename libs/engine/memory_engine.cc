#include "libs/engine/memory_engine.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"

namespace paceline::engine {

bool operator==(const MemoryEngine::Segment& a, const MemoryEngine::Segment& b) {
  return a.base == b.base && a.pages == b.pages &&
         std::ranges::equal(a.log, b.log, [](const LogEntry& x, const LogEntry& y) {
           return x.epoch == y.epoch && x.lsn == y.lsn && x.record == y.record;
         });
}

void MemoryEngine::Disk::Apply(const Batch& batch, Contents& contents) {
  contents.batches += 1;
  for (const Batch::Operation& operation : batch.operations()) {
    if (const auto* reset = std::get_if<Batch::Reset>(&operation)) contents.segments.erase(reset->segment);
    if (const auto* entry = std::get_if<LogEntry>(&operation)) {
      contents.segments[entry->segment].log.push_back(*entry);
    }
    if (const auto* base = std::get_if<Batch::PutBase>(&operation)) {
      Segment& segment = contents.segments[base->segment];
      segment.base = {base->lsn, base->bytes};
      while (!segment.log.empty() && segment.log.front().lsn <= base->lsn) segment.log.pop_front();
    }
    if (const auto* page = std::get_if<Batch::PutPage>(&operation)) {
      contents.segments[page->segment].pages[page->key] = page->bytes;
    }
    if (const auto* page = std::get_if<Batch::DeletePage>(&operation)) {
      contents.segments[page->segment].pages.erase(page->key);
    }
    if (const auto* note = std::get_if<Batch::PutNote>(&operation)) contents.notes[note->name] = note->bytes;
  }
}

std::shared_ptr<MemoryEngine::Disk> MemoryEngine::Disk::CopyOf(const Disk& disk) {
  auto copy = std::make_shared<Disk>();
  copy->synced_ = copy->now_ = disk.now_;
  return copy;
}

void MemoryEngine::Disk::LosePower(size_t kept) {
  for (size_t i = 0; i < std::min(kept, unsynced_.size()); ++i) Apply(unsynced_[i], synced_);
  unsynced_.clear();
  now_ = synced_;
}

absl::StatusOr<std::unique_ptr<MemoryEngine>> MemoryEngine::Open(std::shared_ptr<Disk> disk) {
  if (disk->in_use_) return absl::FailedPreconditionError("the memory disk is in use by another shard");
  return std::unique_ptr<MemoryEngine>(new MemoryEngine(std::move(disk)));
}

MemoryEngine::~MemoryEngine() {
  disk_->in_use_ = false;
}

absl::Status MemoryEngine::Load(Reader& reader) {
  if (disk_->damaged) return absl::DataLossError("disk: a checksum does not match what was read");
  loaded_ = true;
  for (const auto& [id, segment] : disk_->now_.segments) {
    if (segment.base.has_value()) {
      order_.LoadBase(id, segment.base->first);
      ABSL_RETURN_IF_ERROR(reader.OnBase(id, segment.base->first, segment.base->second));
    }
    for (const auto& [key, bytes] : segment.pages) ABSL_RETURN_IF_ERROR(reader.OnPage(id, key, bytes));
  }
  for (const auto& [id, segment] : disk_->now_.segments) {
    for (const LogEntry& entry : segment.log) {
      ABSL_RETURN_IF_ERROR(order_.LoadRecord(id, entry.lsn));
      ABSL_RETURN_IF_ERROR(reader.OnRecord(entry));
    }
  }
  return absl::OkStatus();
}

absl::Status MemoryEngine::Write(const Batch& batch) {
  if (!loaded_) return absl::FailedPreconditionError("engine: Load comes before the first Write");
  ABSL_RETURN_IF_ERROR(disk_->write_error);
  ABSL_RETURN_IF_ERROR(order_.Take(batch));
  ++disk_->writes;
  disk_->unsynced_.push_back(batch);
  Disk::Apply(batch, disk_->now_);
  return absl::OkStatus();
}

absl::Status MemoryEngine::Sync() {
  ABSL_RETURN_IF_ERROR(disk_->sync_error);
  ++disk_->syncs;
  for (const Batch& batch : disk_->unsynced_) Disk::Apply(batch, disk_->synced_);
  disk_->unsynced_.clear();
  return absl::OkStatus();
}

absl::StatusOr<std::string> MemoryEngine::Note(absl::string_view name) const {
  const auto it = disk_->now_.notes.find(name);
  if (it == disk_->now_.notes.end()) return absl::NotFoundError(absl::StrCat("no note ", name));
  return it->second;
}

absl::StatusOr<Usage> MemoryEngine::usage() const {
  Usage usage;
  for (const auto& [id, segment] : disk_->now_.segments) {
    for (const LogEntry& entry : segment.log) usage.log += entry.record.size();
    for (const auto& [key, bytes] : segment.pages) usage.pages += bytes.size();
    if (segment.base.has_value()) usage.pages += segment.base->second.size();
  }
  return usage;
}

}  // namespace paceline::engine
