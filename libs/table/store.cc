#include "libs/table/store.h"

#include <algorithm>
#include <cstring>

#include "absl/container/fixed_array.h"
#include "absl/strings/str_cat.h"
#include "libs/base/cache_line.h"
#include "libs/table/batch.h"
#include "libs/table/initialiser.h"
#include "libs/table/invariant.h"
#include "libs/table/ranged_pages.h"
#include "libs/table/sparse_pages.h"
#include "libs/table/table_copy.h"

namespace paceline::table {
namespace {

using RowRefs = absl::FixedArray<RowRef, 64>;

// Writes the initial values of a row to an address that may be unaligned.
void FillPacked(const Schema& schema, uint64_t key, std::byte* out) {
  constexpr uint32_t kChunk = 256;
  float chunk[kChunk];
  for (uint32_t column = 0; column < schema.dim; column += kChunk) {
    const uint32_t count = std::min(kChunk, schema.dim - column);
    Fill(schema.init, schema.seed, key, column, {chunk, count});
    std::memcpy(out + column * sizeof(float), chunk, count * sizeof(float));
  }
}

// Copies the rows that `refs` found, kRowBytes each, or `row_bytes` if kRowBytes is 0. A small row of known
// width is copied by one move, any other by a call.
template <size_t kRowBytes>
void CopyRows(const Schema& schema, KeyView keys, const RowRefs& refs, size_t row_bytes, std::byte* to) {
  if (kRowBytes != 0) row_bytes = kRowBytes;
  RowFinder find;
  RowFinder find_ahead;
  for (size_t i = 0; i < keys.size(); ++i, to += row_bytes) {
    if (i + kPrefetchAhead < keys.size()) PrefetchRow(refs[i + kPrefetchAhead], row_bytes, find_ahead);
    if (refs[i].page == nullptr) {
      FillPacked(schema, keys[i], to);
    } else {
      std::memcpy(to, find(refs[i]), row_bytes);
    }
  }
}

// The same of rows that were found one behind the other.
template <size_t kRowBytes>
void CopyFound(absl::Span<const float* const> rows, size_t row_bytes, std::byte* to) {
  if (kRowBytes != 0) row_bytes = kRowBytes;
  for (const float* row : rows) {
    std::memcpy(to, row, row_bytes);
    to += row_bytes;
  }
}

void RequireFloats(ValueView values, uint64_t rows, size_t floats_per_row) {
  if (values.size() / floats_per_row == rows && values.size() % floats_per_row == 0) return;
  Broken(absl::StrCat(values.size(), " floats for ", rows, " rows of ", floats_per_row));
}

}  // namespace

TableStore::TableStore(TableId table, const Schema& schema, int ring_bits)
    : table_(table), schema_(schema), kernel_(schema.rule) {
  if (schema.kind == Kind::kSparse) {
    pages_ = std::make_unique<SparsePages>(table, schema, ring_bits);
  } else {
    auto ranged = std::make_unique<RangedPages>(table, schema, ring_bits);
    ranged_ = ranged.get();
    pages_ = std::move(ranged);
  }
}

TableStore::~TableStore() = default;

void TableStore::Update(KeyView keys, ValueView gradients, Lsn version) {
  RequireFloats(gradients, keys.size(), schema_.dim);
  const bool distinct = Ascending(keys);
  if (distinct) {
    const size_t done = UpdateAtOnce(keys, gradients, version);
    if (done == keys.size()) return;
    gradients = gradients.subview(done * schema_.dim, gradients.size() - done * schema_.dim);
    keys = keys.subview(done, keys.size() - done);
  }
  RowRefs refs(keys.size());
  pages_->LocateOrBear(keys, version, refs.data());
  if (copy_ != nullptr) TellCopy(refs);
  const std::vector<uint32_t> repeats = TouchAndFindRepeats(absl::MakeSpan(refs), version, distinct);
  ApplyBatch(kernel_, schema_.dim, refs, repeats, gradients);
}

size_t TableStore::UpdateAtOnce(KeyView keys, ValueView gradients, Lsn version) {
  if (copy_ != nullptr) return 0;
  if (schema_.dim == 1) {
    return pages_->FindToUpdate(keys, version, [&](size_t i, absl::Span<float* const> rows) {
      kernel_.ApplyToRows(rows, gradients.subview(i, rows.size()).data());
    });
  }
  if (kernel_.prefers_blocks()) return 0;
  const size_t dim = schema_.dim;
  return pages_->FindToUpdate(keys, version, [&](size_t i, absl::Span<float* const> rows) {
    for (float* row : rows) kernel_.Apply(row, dim, gradients.subview(i++ * dim, dim).data(), dim);
  });
}

void TableStore::UpdateRange(uint64_t first, uint64_t count, ValueView gradients, Lsn version) {
  if (count == 0) return;
  RequireFloats(gradients, count, schema_.dim);
  const size_t row = ranged_->RowInBlock(first, count);
  RangedPage* page = ranged_->FindOrBear(first);
  if (page->CameWith(version)) return;
  if (copy_ != nullptr) copy_->BeforeChange(*page, row, count);
  page->Touch(version);
  kernel_.Apply(page->Values(row), page->slot_stride(), gradients.data(), count * schema_.dim);
}

void TableStore::UseRule(const Rule& rule) {
  schema_.rule = rule;
  kernel_ = kernel_.WithRates(rule);
}

void TableStore::Put(KeyView keys, ValueView rows, Lsn version) {
  const size_t floats = FloatsPerRow(schema_);
  RequireFloats(rows, keys.size(), floats);
  RowRefs refs(keys.size());
  pages_->LocateOrBear(keys, version, refs.data());
  if (copy_ != nullptr) TellCopy(refs);
  RowFinder finder;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i + kPrefetchAhead < refs.size()) {
      PrefetchRow(refs[i + kPrefetchAhead], floats * sizeof(float), finder);
    }
    Page* page = refs[i].page;
    if (page == nullptr || page->CameWith(version)) continue;
    page->Touch(version);
    page->SetRow(refs[i].row, rows.subview(i * floats, floats).data());
  }
}

void TableStore::Read(KeyView keys, void* out) const {
  const size_t row_bytes = schema_.dim * sizeof(float);
  std::byte* to = static_cast<std::byte*>(out);
  const size_t done = ReadAtOnce(keys, to);
  if (done == keys.size()) return;
  keys = keys.subview(done, keys.size() - done);
  to += done * row_bytes;
  RowRefs refs(keys.size());
  pages_->Locate(keys, refs.data());
  const auto copy = schema_.dim == 1 ? CopyRows<sizeof(float)> : CopyRows<0>;
  copy(schema_, keys, refs, row_bytes, to);
}

size_t TableStore::ReadAtOnce(KeyView keys, std::byte* out) const {
  const size_t row_bytes = schema_.dim * sizeof(float);
  const auto copy = row_bytes == sizeof(float)     ? CopyFound<sizeof(float)>
                    : row_bytes == kCacheLineBytes ? CopyFound<kCacheLineBytes>
                                                   : CopyFound<0>;
  return pages_->FindValues(keys, [&](size_t i, absl::Span<const float* const> rows) {
    copy(rows, row_bytes, out + i * row_bytes);
  });
}

void TableStore::ReadRange(uint64_t first, uint64_t count, void* out) const {
  if (count == 0) return;
  const size_t row_bytes = schema_.dim * sizeof(float);
  const size_t row = ranged_->RowInBlock(first, count);
  const RangedPage* page = ranged_->Find(first);
  if (page != nullptr) {
    std::memcpy(out, page->Values(row), count * row_bytes);
    return;
  }
  std::byte* to = static_cast<std::byte*>(out);
  for (uint64_t i = 0; i < count; ++i) FillPacked(schema_, first + i, to + i * row_bytes);
}

void TableStore::Foresee(KeyView keys, LookAhead& ahead) const {
  pages_->Foresee(keys, ahead);
}

uint64_t TableStore::rows() const {
  return pages_->rows();
}
uint64_t TableStore::bytes() const {
  return pages_->bytes();
}
uint64_t TableStore::NewBytesBound(size_t keys) const {
  return pages_->NewBytesBound(keys);
}
uint64_t TableStore::NewBytesBound(KeyView keys) const {
  return pages_->NewBytesBound(keys);
}

void TableStore::ForEachPage(absl::FunctionRef<void(const Page&)> visit) const {
  pages_->ForEachPage(0, [visit](const Page& page) {
    visit(page);
    return true;
  });
}

void TableStore::ForEachPage(uint64_t from, absl::FunctionRef<bool(const Page&)> visit) const {
  pages_->ForEachPage(from, visit);
}

void TableStore::TellCopy(absl::Span<const RowRef> refs) {
  const size_t bytes = FloatsPerRow(schema_) * sizeof(float);
  RowFinder finder;
  for (size_t i = 0; i < refs.size(); ++i) {
    if (i + kPrefetchAhead < refs.size()) PrefetchRow(refs[i + kPrefetchAhead], bytes, finder);
    if (refs[i].page != nullptr) copy_->BeforeChange(*refs[i].page, refs[i].row);
  }
}

void TableStore::BeginCopy(std::shared_ptr<CopyMemory> memory) {
  copy_ = std::make_unique<TableCopy>(table_, *pages_, ranged_ != nullptr, std::move(memory));
  pages_->Tell(copy_.get());
}

absl::StatusOr<bool> TableStore::NextOfCopy(CopiedRows* out) {
  if (copy_ == nullptr) return false;
  absl::StatusOr<bool> next = copy_->Next(out);
  if (!next.ok() || !*next) EndCopy();
  return next;
}

void TableStore::EndCopy() {
  pages_->Tell(nullptr);
  copy_.reset();
}

absl::Status TableStore::InstallView(const PageView& image) {
  EndCopy();
  if (image.version == Lsn(0)) return absl::DataLossError("page: its version is 0; expected at least 1");
  return pages_->Install(image);
}

uint64_t TableStore::Hash() const {
  uint64_t sum = rows();
  ForEachPage([&sum](const Page& page) { sum += page.ContentHash(); });
  return sum;
}

}  // namespace paceline::table
