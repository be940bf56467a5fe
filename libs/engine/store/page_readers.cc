#include "libs/engine/store/page_readers.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "libs/base/status.h"
#include "libs/engine/format.h"
#include "libs/engine/store/rocksdb_common.h"

namespace paceline::engine {
namespace {

constexpr absl::string_view kWhat = "reading pages";

absl::string_view View(const rocksdb::Slice& slice) {
  return {slice.data(), slice.size()};
}

}  // namespace

absl::Status PageReaders::Run(int threads) {
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back([this] { Work(); });
  Work();
  for (std::thread& other : others) other.join();
  MutexLock lock(&mutex_);
  return status_;
}

void PageReaders::Work() {
  const std::unique_ptr<rocksdb::Iterator> it(db_.NewIterator(ReadOnce(), pages_));
  while (const std::optional<SegmentId> segment = Claim(*it)) Note(ReadSegment(*it, *segment));
}

std::optional<SegmentId> PageReaders::Claim(rocksdb::Iterator& it) {
  MutexLock lock(&mutex_);
  if (!next_.has_value() || !status_.ok()) return std::nullopt;
  it.Seek(SegmentKey(*next_));
  next_.reset();
  if (!it.Valid()) {
    status_.Update(named_(Translated(it.status(), "disk", kWhat)));
    return std::nullopt;
  }
  const auto key = ParsePageKey(View(it.key()));
  if (!key.ok()) {
    status_.Update(key.status());
    return std::nullopt;
  }
  const SegmentId segment = key->first;
  if (segment.v < UINT32_MAX) next_ = SegmentId(segment.v + 1);
  return segment;
}

absl::Status PageReaders::ReadSegment(rocksdb::Iterator& it, SegmentId segment) {
  for (; it.Valid(); it.Next()) {
    ABSL_ASSIGN_OR_RETURN(const auto key, ParsePageKey(View(it.key())));
    if (key.first != segment) return absl::OkStatus();
    if (failed()) return absl::OkStatus();
    ABSL_ASSIGN_OR_RETURN(const absl::string_view bytes, Unchecked(View(it.value()), "page"));
    ABSL_RETURN_IF_ERROR(reader_.OnPage(key.first, key.second, bytes));
  }
  return named_(Translated(it.status(), "disk", kWhat));
}

bool PageReaders::failed() {
  MutexLock lock(&mutex_);
  return !status_.ok();
}

void PageReaders::Note(const absl::Status& status) {
  MutexLock lock(&mutex_);
  status_.Update(status);
}

}  // namespace paceline::engine
