#include "libs/engine/store/rocksdb_engine.h"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/little_endian.h"
#include "libs/base/status.h"
#include "libs/engine/format.h"
#include "libs/engine/log_order.h"
#include "libs/engine/log_runs.h"
#include "libs/engine/store/database_options.h"
#include "libs/engine/store/group_cutter.h"
#include "libs/engine/store/marked_folder.h"
#include "libs/engine/store/page_readers.h"
#include "libs/engine/store/rocksdb_common.h"
#include "libs/engine/store/synced_files.h"
#include "libs/engine/store/written_batches.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/write_batch.h"

namespace paceline::engine {
namespace {

constexpr absl::string_view kFormatNote = "!format";
constexpr absl::string_view kBatchNote = "!batch";
constexpr size_t kBatchRoom = 512;  // for what a batch has beside its operations
constexpr char kRemedy[] =
    "Put the file back if there is an unchanged copy of it. Otherwise start the shard with an empty folder: "
    "it gets the data that replicas have, and data that nobody else has is given up with paceline recover "
    "--accept-loss";

rocksdb::Slice ToSlice(absl::string_view bytes) {
  return {bytes.data(), bytes.size()};
}

absl::string_view ToView(const rocksdb::Slice& slice) {
  return {slice.data(), slice.size()};
}

absl::Status DiskStatus(const rocksdb::Status& status, absl::string_view what) {
  return Translated(status, "disk", what);
}

std::shared_ptr<rocksdb::FileSystem> FilesOf(const RocksDbOptions& ours) {
  return ours.env != nullptr ? ours.env->GetFileSystem() : rocksdb::FileSystem::Default();
}

// More than 15 members: RocksDB's objects, and the order in which batches reach its files.
class RocksDbEngine final : public Engine {
 public:
  RocksDbEngine(std::string dir, const RocksDbOptions& options)
      : dir_(std::move(dir)), options_(options), env_(WithoutNeedlessSyncs(FilesOf(options))) {}
  ~RocksDbEngine() override { Close(); }

  absl::Status Start();
  absl::Status Load(Reader& reader) override { return LoadInParallel(reader, 1); }
  absl::Status LoadInParallel(Reader& reader, int threads) override;
  absl::Status Write(const Batch& batch) override;
  absl::Status Sync() override;
  absl::StatusOr<std::string> Note(absl::string_view name) const override;
  absl::StatusOr<Usage> usage() const override;
  uint64_t memory_bytes() const override;
  uint64_t position() const override { return last_batch_; }

 private:
  absl::Status Open(bool create);
  absl::Status CheckFormat();
  void Close();
  // OK: the database can be written to. After an error it is opened anew, with all that it had.
  absl::Status GoOn();
  absl::StatusOr<uint64_t> LastBatch() const;
  // Returns the same status, translated; remembers an error.
  absl::Status Noted(const rocksdb::Status& status, absl::string_view what);
  absl::Status FlushIfDue();
  absl::Status LoadBases(Reader& reader);
  absl::Status LoadLog(Reader& reader);
  using FirstGroups = std::map<SegmentId, uint64_t>;
  absl::Status Put(const Batch& batch, FirstGroups& first_groups, rocksdb::WriteBatch& out);
  absl::Status PutOne(const Batch::Operation& operation, FirstGroups& first_groups, rocksdb::WriteBatch& out);
  absl::Status PutGroups(const Batch& batch, rocksdb::WriteBatch& out) const;
  absl::Status PutReset(SegmentId segment, rocksdb::WriteBatch& out);
  void Written(const Batch& batch);
  void DeleteOldFiles();

  const std::string dir_;
  const RocksDbOptions options_;
  const std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<FolderLock> lock_;
  std::unique_ptr<MarkedFolder> folder_;
  std::unique_ptr<rocksdb::DB> db_;               // nullptr: it could not be opened anew yet
  rocksdb::ColumnFamilyHandle* bases_ = nullptr;  // and notes
  rocksdb::ColumnFamilyHandle* pages_ = nullptr;
  rocksdb::ColumnFamilyHandle* log_ = nullptr;
  size_t buffered_ = 0;  // bytes since the last flush
  WrittenBatches written_;
  uint64_t last_batch_ = 0;
  LogOrder order_;
  LogRuns runs_;
  FirstGroups first_groups_;
  uint64_t next_group_ = 1;
  uint64_t deleted_before_ = 0;  // files whose groups are older were looked at
  bool loaded_ = false;
  bool failed_ = false;
};

// The format that the note states; 0 if there is no note.
uint64_t FormatIn(absl::string_view note) {
  return note.size() == 8 ? LoadU64(note.data()) : 0;
}

absl::Status RocksDbEngine::CheckFormat() {
  const absl::StatusOr<std::string> found = Note(kFormatNote);
  if (!found.ok() && !absl::IsNotFound(found.status())) return found.status();
  const uint64_t format = found.ok() ? FormatIn(*found) : 0;
  if (format == kFormat) return absl::OkStatus();
  if (format > kFormat) {
    return absl::FailedPreconditionError(absl::StrCat("disk: ", db_->GetName(), " has format ", format,
                                                      "; this release knows up to ", kFormat,
                                                      ": run the release that wrote it"));
  }
  std::string bytes(8, '\0');
  StoreU64(kFormat, bytes.data());
  rocksdb::WriteOptions synced;
  synced.sync = true;
  return DiskStatus(db_->Put(synced, bases_, absl::StrCat("n", kFormatNote), Checked(bytes)), "writing");
}

// -- loading --

absl::Status RocksDbEngine::LoadInParallel(Reader& reader, int threads) {
  ABSL_RETURN_IF_ERROR(LoadBases(reader));
  ABSL_RETURN_IF_ERROR(PageReaders(*db_, pages_, reader, [this](absl::Status error) {
                         return folder_->Named(error);
                       }).Run(threads));
  ABSL_RETURN_IF_ERROR(LoadLog(reader));
  ABSL_ASSIGN_OR_RETURN(last_batch_, LastBatch());
  ABSL_RETURN_IF_ERROR(folder_->CheckPosition(last_batch_));
  ABSL_RETURN_IF_ERROR(DiskStatus(db_->EnableAutoCompaction({bases_, pages_}), "starting compactions"));
  loaded_ = true;
  return absl::OkStatus();
}

absl::Status RocksDbEngine::LoadBases(Reader& reader) {
  const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(rocksdb::ReadOptions(), bases_));
  for (it->Seek("s"); it->Valid() && it->key().starts_with("s"); it->Next()) {
    ABSL_ASSIGN_OR_RETURN(const SegmentId segment, ParseSegmentKey(ToView(it->key()).substr(1)));
    ABSL_ASSIGN_OR_RETURN(const SegmentHead head, DecodeSegmentHead(ToView(it->value())));
    first_groups_[segment] = head.first_group;
    next_group_ = std::max(next_group_, head.first_group + 1);
    runs_.Reset(segment, head.first_group);
    if (!head.has_base) continue;
    runs_.Cut(segment, head.lsn);
    order_.LoadBase(segment, head.lsn);
    ABSL_RETURN_IF_ERROR(reader.OnBase(segment, head.lsn, head.base));
  }
  return folder_->Named(DiskStatus(it->status(), "reading bases"));
}

absl::Status RocksDbEngine::LoadLog(Reader& reader) {
  const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(ReadOnce(), log_));
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    ABSL_ASSIGN_OR_RETURN(const uint64_t group, ParseGroupKey(ToView(it->key())));
    next_group_ = std::max(next_group_, group + 1);
    ABSL_RETURN_IF_ERROR(ParseGroup(ToView(it->value()), [&](LogEntry entry) {
      const auto first = first_groups_.find(entry.segment);
      if (first != first_groups_.end() && group < first->second) return absl::OkStatus();
      const LogOrder::Span span = order_.Of(entry.segment);
      if (span.next.has_value() && entry.lsn <= span.cut) return absl::OkStatus();
      runs_.Append(group, entry.segment, entry.lsn, entry.record.size());
      if (absl::Status fits = order_.LoadRecord(entry.segment, entry.lsn); !fits.ok()) {
        return absl::DataLossError(fits.message());
      }
      return reader.OnRecord(std::move(entry));
    }));
  }
  return folder_->Named(DiskStatus(it->status(), "reading the log"));
}

// -- writing --

absl::Status RocksDbEngine::Write(const Batch& batch) {
  if (!loaded_) return absl::FailedPreconditionError("engine: Load comes before the first Write");
  ABSL_RETURN_IF_ERROR(GoOn());
  ABSL_RETURN_IF_ERROR(FlushIfDue());
  LogOrder order = order_;
  ABSL_RETURN_IF_ERROR(order.Take(batch));
  FirstGroups first_groups = first_groups_;
  rocksdb::WriteBatch out = written_.New(batch.bytes() + kBatchRoom);
  ABSL_RETURN_IF_ERROR(Put(batch, first_groups, out));
  ABSL_RETURN_IF_ERROR(Noted(db_->Write(rocksdb::WriteOptions(), &out), "writing"));
  written_.Add(++last_batch_, std::move(out));
  order_ = std::move(order);
  first_groups_ = std::move(first_groups);
  Written(batch);
  return absl::OkStatus();
}

absl::Status RocksDbEngine::Sync() {
  ABSL_RETURN_IF_ERROR(GoOn());
  ABSL_RETURN_IF_ERROR(Noted(db_->SyncWAL(), "syncing"));
  written_.Synced();
  return folder_->Reached(last_batch_);
}

absl::Status RocksDbEngine::Noted(const rocksdb::Status& status, absl::string_view what) {
  failed_ |= !status.ok();
  return DiskStatus(status, what);
}

// After an error RocksDB accepts no more writes. To make it go on (Resume) would mean to trust files whose
// sync failed once. For those the operating system reports success the second time, though their content is
// gone (fsyncgate: Rebello et al., "Can applications recover from fsync failures?", ATC 2020). When opened
// anew, RocksDB writes everything in its write-ahead log to new files and syncs these before it deletes that
// log. Batches that the log lacks are among those since the last sync, which are kept here.
absl::Status RocksDbEngine::GoOn() {
  if (db_ != nullptr && !failed_) return absl::OkStatus();
  Close();
  ABSL_RETURN_IF_ERROR(Open(/*create=*/false));
  failed_ = true;  // until all that follows has succeeded: otherwise it begins here again
  ABSL_ASSIGN_OR_RETURN(const uint64_t found, LastBatch());
  // The batch that failed may be there: the caller writes it again, with the same content.
  if (found > last_batch_ + 1) {
    return absl::DataLossError(absl::StrCat("disk: ", dir_, " has batches up to ", found, "; those up to ",
                                            last_batch_,
                                            " were written here: somebody else has written to "
                                            "it. Start the shard with an empty folder"));
  }
  if (found + written_.unsynced().size() < last_batch_) {
    return absl::DataLossError(absl::StrCat("disk: ", dir_, " has batches up to ", found, "; those up to ",
                                            last_batch_ - written_.unsynced().size(),
                                            " had been synced: the disk cannot be trusted. Start the "
                                            "shard with an empty folder on another disk"));
  }
  for (WrittenBatches::One& one : written_.unsynced()) {
    if (one.number <= found) continue;
    ABSL_RETURN_IF_ERROR(Noted(db_->Write(rocksdb::WriteOptions(), &one.batch), "writing again"));
    buffered_ += one.batch.GetDataSize();
  }
  ABSL_RETURN_IF_ERROR(Noted(db_->SyncWAL(), "syncing"));
  written_.Synced();
  failed_ = false;
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> RocksDbEngine::LastBatch() const {
  const absl::StatusOr<std::string> found = Note(kBatchNote);
  if (absl::IsNotFound(found.status())) return 0;
  ABSL_RETURN_IF_ERROR(found.status());
  if (found->size() != 8) return absl::DataLossError("disk: the number of the last batch is damaged");
  return LoadU64(found->data());
}

// Flushes run in the background, one at a time. RocksDB begins a new write-ahead log file with each flush. If
// the one before were not synced yet, a loss of power could take its end and leave the content of the next.
absl::Status RocksDbEngine::FlushIfDue() {
  if (buffered_ < options_.write_buffer_bytes) return absl::OkStatus();
  ABSL_RETURN_IF_ERROR(Sync());
  rocksdb::FlushOptions background;
  background.wait = false;
  const rocksdb::Status begun = db_->Flush(background, {bases_, pages_, log_});
  if (begun.IsTryAgain()) return absl::OkStatus();  // try again with the next batch
  ABSL_RETURN_IF_ERROR(Noted(begun, "writing files"));
  buffered_ = 0;
  return absl::OkStatus();
}

absl::Status RocksDbEngine::Put(const Batch& batch, FirstGroups& first_groups, rocksdb::WriteBatch& out) {
  for (const Batch::Operation& operation : batch.operations()) {
    ABSL_RETURN_IF_ERROR(PutOne(operation, first_groups, out));
  }
  std::string number(8, '\0');
  StoreU64(last_batch_ + 1, number.data());
  ABSL_RETURN_IF_ERROR(
      DiskStatus(out.Put(bases_, absl::StrCat("n", kBatchNote), Checked(number)), "gathering a batch"));
  return PutGroups(batch, out);
}

absl::Status RocksDbEngine::PutOne(const Batch::Operation& operation, FirstGroups& first_groups,
                                   rocksdb::WriteBatch& out) {
  rocksdb::Status status;
  if (const auto* reset = std::get_if<Batch::Reset>(&operation)) {
    first_groups[reset->segment] = next_group_;
    return PutReset(reset->segment, out);
  }
  if (const auto* base = std::get_if<Batch::PutBase>(&operation)) {
    status = out.Put(bases_, absl::StrCat("s", SegmentKey(base->segment)),
                     EncodeSegmentHead({.first_group = first_groups[base->segment],
                                        .has_base = true,
                                        .lsn = base->lsn,
                                        .base = base->bytes}));
  } else if (const auto* page = std::get_if<Batch::PutPage>(&operation)) {
    status = out.Put(pages_, PageKeyBytes(page->segment, page->key), Checked(page->bytes));
  } else if (const auto* old = std::get_if<Batch::DeletePage>(&operation)) {
    status = out.Delete(pages_, PageKeyBytes(old->segment, old->key));
  } else if (const auto* note = std::get_if<Batch::PutNote>(&operation)) {
    status = out.Put(bases_, absl::StrCat("n", note->name), Checked(note->bytes));
  }
  return DiskStatus(status, "gathering a batch");
}

absl::Status RocksDbEngine::PutReset(SegmentId segment, rocksdb::WriteBatch& out) {
  SegmentHead head;
  head.first_group = next_group_;
  ABSL_RETURN_IF_ERROR(DiskStatus(
      out.Put(bases_, absl::StrCat("s", SegmentKey(segment)), EncodeSegmentHead(head)), "gathering a batch"));
  return DiskStatus(out.DeleteRange(pages_, SegmentKey(segment), SegmentKey(SegmentId(segment.v + 1))),
                    "gathering a batch");
}

// Puts the records of a batch into one group, or into several if they are many bytes, without those that a
// later Reset of their segment forgets.
absl::Status RocksDbEngine::PutGroups(const Batch& batch, rocksdb::WriteBatch& out) const {
  std::map<SegmentId, size_t> resets;
  const auto& operations = batch.operations();
  for (size_t i = 0; i < operations.size(); ++i) {
    if (const auto* reset = std::get_if<Batch::Reset>(&operations[i])) resets[reset->segment] = i;
  }
  std::deque<std::string> heads;
  std::vector<rocksdb::Slice> pieces;
  uint64_t group = next_group_;
  const auto put = [&] {
    const std::string key = GroupKey(group);
    const rocksdb::Slice key_piece(key);
    const auto piece_count = static_cast<int>(pieces.size());
    const rocksdb::Status status = piece_count == 0
                                       ? rocksdb::Status::OK()
                                       : out.Put(log_, rocksdb::SliceParts(&key_piece, 1),
                                                 rocksdb::SliceParts(pieces.data(), piece_count));
    heads.clear();
    pieces.clear();
    return DiskStatus(status, "gathering a batch");
  };
  GroupCutter cutter(next_group_, options_.group_bytes);
  for (size_t i = 0; i < operations.size(); ++i) {
    const auto* entry = std::get_if<LogEntry>(&operations[i]);
    if (entry == nullptr) continue;
    if (const uint64_t of = cutter.GroupOf(*entry); of != group) {
      ABSL_RETURN_IF_ERROR(put());
      group = of;
    }
    if (const auto reset = resets.find(entry->segment); reset != resets.end() && reset->second > i) continue;
    heads.push_back(EntryHead(*entry));
    pieces.push_back(heads.back());
    for (const absl::string_view chunk : entry->record.Chunks()) pieces.push_back(ToSlice(chunk));
  }
  return put();
}

void RocksDbEngine::Written(const Batch& batch) {
  buffered_ += batch.bytes();
  GroupCutter cutter(next_group_, options_.group_bytes);
  for (const Batch::Operation& operation : batch.operations()) {
    if (const auto* reset = std::get_if<Batch::Reset>(&operation)) runs_.Reset(reset->segment, next_group_);
    if (const auto* base = std::get_if<Batch::PutBase>(&operation)) runs_.Cut(base->segment, base->lsn);
    if (const auto* entry = std::get_if<LogEntry>(&operation)) {
      runs_.Append(cutter.GroupOf(*entry), entry->segment, entry->lsn, entry->record.size());
    }
  }
  next_group_ = cutter.next();
  DeleteOldFiles();
}

// First syncs the data that makes the files needless: a deletion takes effect at once, and if power then
// failed and took a base, the log before that base would be missing. Of files that were never compacted
// RocksDB deletes only the oldest, so they go one by one. A file that cannot be deleted now is tried again
// when the next run is no longer needed.
void RocksDbEngine::DeleteOldFiles() {
  const uint64_t needed = runs_.OldestNeeded(next_group_);
  if (needed <= deleted_before_) return;
  const std::string oldest_needed = GroupKey(needed);
  std::vector<rocksdb::LiveFileMetaData> files;
  db_->GetLiveFilesMetaData(&files);
  std::erase_if(files, [&](const auto& file) {
    return file.column_family_name != log_->GetName() || file.largestkey >= oldest_needed;
  });
  if (!files.empty() && !Sync().ok()) return;
  deleted_before_ = needed;
  std::ranges::sort(files, {}, [](const auto& file) { return file.smallestkey; });
  for (const auto& file : files) {
    const rocksdb::Status deleted = db_->DeleteFile(file.name);
    if (deleted.IsInvalidArgument()) return;  // RocksDB does not count it as the oldest yet
    if (!Noted(deleted, "deleting").ok()) return;
  }
}

// -- the rest --

absl::StatusOr<std::string> RocksDbEngine::Note(absl::string_view name) const {
  if (db_ == nullptr) return absl::UnavailableError("disk: it could not be opened again after an error");
  std::string bytes;
  const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), bases_, absl::StrCat("n", name), &bytes);
  if (status.IsNotFound()) return absl::NotFoundError(absl::StrCat("disk: no note ", name));
  ABSL_RETURN_IF_ERROR(DiskStatus(status, absl::StrCat("reading note ", name)));
  ABSL_ASSIGN_OR_RETURN(const absl::string_view inner, Unchecked(bytes, absl::StrCat("note ", name)));
  return std::string(inner);
}

absl::StatusOr<Usage> RocksDbEngine::usage() const {
  if (db_ == nullptr) return absl::UnavailableError("disk: it could not be opened again after an error");
  Usage usage;
  std::vector<rocksdb::LiveFileMetaData> files;
  db_->GetLiveFilesMetaData(&files);
  for (const auto& file : files) {
    (file.column_family_name == log_->GetName() ? usage.log : usage.pages) += file.size;
  }
  rocksdb::VectorLogPtr logs;
  ABSL_RETURN_IF_ERROR(DiskStatus(db_->GetSortedWalFiles(logs), "listing the write-ahead log"));
  for (const auto& log : logs) usage.write_ahead += log->SizeFileBytes();
  return usage;
}

uint64_t RocksDbEngine::memory_bytes() const {
  if (db_ == nullptr) return 0;
  uint64_t sum = 0;
  for (const char* of_families : {"rocksdb.cur-size-all-mem-tables", "rocksdb.estimate-table-readers-mem"}) {
    uint64_t bytes = 0;
    if (db_->GetAggregatedIntProperty(of_families, &bytes)) sum += bytes;
  }
  uint64_t cached = 0;  // of one cache, which all families share
  if (db_->GetIntProperty(pages_, "rocksdb.block-cache-usage", &cached)) sum += cached;
  return sum;
}

// -- opening --

absl::Status RocksDbEngine::Start() {
  ABSL_ASSIGN_OR_RETURN(lock_, FolderLock::Take(env_.get(), dir_, "disk", "shard"));
  const auto read_format = [this](rocksdb::Env* env) -> absl::StatusOr<uint64_t> {
    ABSL_ASSIGN_OR_RETURN(const std::optional<std::string> note,
                          ReadOne(env, dir_, "disk", absl::StrCat("n", kFormatNote)));
    if (!note.has_value()) return 0;
    ABSL_ASSIGN_OR_RETURN(const absl::string_view bytes, Unchecked(*note, kFormatNote));
    return FormatIn(bytes);
  };
  ABSL_ASSIGN_OR_RETURN(
      folder_, MarkedFolder::Open(env_->GetFileSystem(), dir_, {.whose = "disk", .remedy = kRemedy}, kFormat,
                                  read_format));
  ABSL_RETURN_IF_ERROR(Open(/*create=*/true));
  return CheckFormat();
}

absl::Status RocksDbEngine::Open(bool create) {
  const std::vector<rocksdb::ColumnFamilyDescriptor> families = {
      {rocksdb::kDefaultColumnFamilyName, CompactedOptions(options_.write_buffer_bytes, loaded_)},
      {"pages", CompactedOptions(options_.write_buffer_bytes, loaded_)},
      {"log", LogOptions(options_.write_buffer_bytes)}};
  ABSL_RETURN_IF_ERROR(folder_->Check());
  rocksdb::DB* db = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  const rocksdb::Status status =
      rocksdb::DB::Open(DbOptions(folder_->env(), create), dir_, families, &handles, &db);
  ABSL_RETURN_IF_ERROR(folder_->Named(DiskStatus(status, absl::StrCat("opening ", dir_))));
  db_.reset(db);
  bases_ = handles[0];
  pages_ = handles[1];
  log_ = handles[2];
  failed_ = false;
  buffered_ = 0;
  return absl::OkStatus();
}

void RocksDbEngine::Close() {
  if (db_ == nullptr) return;
  for (rocksdb::ColumnFamilyHandle* family : {bases_, pages_, log_}) db_->DestroyColumnFamilyHandle(family);
  db_.reset();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> OpenRocksDbEngine(const std::string& dir,
                                                          const RocksDbOptions& options) {
  auto engine = std::make_unique<RocksDbEngine>(dir, options);
  ABSL_RETURN_IF_ERROR(engine->Start());
  return engine;
}

}  // namespace paceline::engine
