#include "libs/table/table_copy.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "libs/table/page_map.h"

namespace paceline::table {

TableCopy::~TableCopy() {
  if (taken_ > 0) memory_->GiveBack(taken_);
}

TableCopy::Changed* TableCopy::Noted(const Page& page) {
  if (&page == last_page_) return last_;
  if (no_memory_ || walked_ || WasGivenOut(page)) return nullptr;
  auto& changed = changed_[&page];
  if (changed == nullptr) {
    changed = std::make_unique<Changed>(Changed{.rows_then = page.numbers()});
    if (!Hold(BytesOf(*changed))) return nullptr;
  }
  last_page_ = &page;
  last_ = changed->done ? nullptr : changed.get();
  return last_;
}

void TableCopy::BeforeChange(const Page& page, uint32_t row) {
  if (Changed* changed = Noted(page)) Keep(page, row, *changed);
}

void TableCopy::BeforeChange(const Page& page, size_t first_row, size_t rows) {
  Changed* changed = Noted(page);
  if (changed == nullptr) return;
  if (rows >= changed->rows_then / 2) return PutAside(page, *changed);
  for (size_t row = first_row; row < first_row + rows; ++row) {
    Keep(page, static_cast<uint32_t>(row), *changed);
    if (no_memory_) return;
  }
}

void TableCopy::BeforeBirth(const Page& page) {
  Changed* changed = Noted(page);
  if (changed != nullptr && page.births_renumber()) PutAside(page, *changed);
}

void TableCopy::BeforeSplit(const Page& page, const Page& upper) {
  if (no_memory_ || walked_ || WasGivenOut(page)) return;
  if (Changed* changed = Noted(page)) PutAside(page, *changed);
  OnNewPage(upper);
}

void TableCopy::OnNewPage(const Page& page) {
  if (no_memory_ || walked_) return;
  auto changed = std::make_unique<Changed>(Changed{.done = true});
  if (Hold(BytesOf(*changed))) changed_[&page] = std::move(changed);
}

void TableCopy::Keep(const Page& page, uint32_t row, Changed& changed) {
  if (Planted(Bug::kRowNotPutAside)) return;
  if (row >= changed.rows_then || (!changed.kept.empty() && changed.kept[row])) return;
  const size_t floats = page.floats();
  if (changed.rows.size() == changed.rows.capacity()) {
    const uint64_t before = BytesOf(changed);
    constexpr size_t kFirst = 16;
    const size_t room = std::min(changed.rows_then, std::max(kFirst, 2 * changed.rows.size()));
    changed.kept.resize(changed.rows_then);
    changed.rows.reserve(room);
    changed.content.reserve(room * floats);
    if (!Hold(BytesOf(changed) - before)) return;
  }
  changed.kept[row] = true;
  changed.rows.push_back(row);
  changed.content.resize(changed.content.size() + floats);
  page.CopyRow(row, changed.content.data() + changed.content.size() - floats);
}

void TableCopy::PutAside(const Page& page, Changed& changed) {
  CopiedRows rows = RowsOf(page);
  Forget(changed);
  if (rows.keys.empty() || !Hold(BytesOf(rows))) return;
  aside_.push_back(std::move(rows));
}

CopiedRows TableCopy::RowsOf(const Page& page) const {
  const auto found = changed_.find(&page);
  const Changed* changed = found == changed_.end() ? nullptr : found->second.get();
  const size_t floats = page.floats();
  const size_t numbers = changed == nullptr ? page.numbers() : changed->rows_then;
  CopiedRows out{.table = table_, .floats = static_cast<uint32_t>(floats), .keys = {}, .rows = {}};
  const size_t count = std::min(page.rows(), numbers);
  out.keys.reserve(count);
  out.rows.resize(count * floats);
  // Of rows in `out`, by number; needed only if some were put aside.
  std::vector<float*> places(changed == nullptr || changed->rows.empty() ? 0 : numbers);
  page.ForEachRow([&](uint64_t key, size_t row) {
    if (row >= numbers) return;
    float* const place = out.rows.data() + out.keys.size() * floats;
    if (!places.empty()) places[row] = place;
    out.keys.push_back(key);
    page.CopyRow(row, place);
  });
  for (size_t i = 0; changed != nullptr && i < changed->rows.size(); ++i) {
    std::copy_n(changed->content.data() + i * floats, floats, places[changed->rows[i]]);
  }
  return out;
}

void TableCopy::Forget(Changed& changed) {
  const uint64_t before = BytesOf(changed);
  changed = {.done = true};
  LetGo(before - BytesOf(changed));
  last_page_ = nullptr;
}

absl::StatusOr<bool> TableCopy::Next(CopiedRows* out) {
  last_page_ = nullptr;
  if (!no_memory_ && !walked_ && aside_.empty()) {
    bool found = false;
    pages_.ForEachPage(from_, [&](const Page& page) {
      from_ = ranged_ ? page.range().start + page.rows() : page.range().end();
      walked_ = from_ == 0;  // it was the last one there is room for
      const auto changed = changed_.find(&page);
      const bool done = changed != changed_.end() && changed->second->done;
      if (!done) *out = RowsOf(page);
      if (changed != changed_.end()) {
        LetGo(BytesOf(*changed->second));
        changed_.erase(changed);
      }
      found = !done && !out->keys.empty();
      return !found;
    });
    if (found) return true;
    walked_ = true;
  }
  if (no_memory_) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory to keep the rows of table ", table_.v,
                                                     " that have changed since; add shards or raise "
                                                     "--memory-budget"));
  }
  if (aside_.empty()) return false;
  *out = std::move(aside_.front());
  aside_.pop_front();
  LetGo(BytesOf(*out));
  return true;
}

uint64_t TableCopy::BytesOf(const Changed& changed) {
  constexpr uint64_t kEntry = 64;  // in the map, and of the allocator
  return kEntry + sizeof(Changed) + changed.kept.capacity() / 8 + changed.rows.capacity() * sizeof(uint32_t) +
         changed.content.capacity() * sizeof(float);
}

uint64_t TableCopy::BytesOf(const CopiedRows& rows) {
  return sizeof(CopiedRows) + rows.keys.size() * sizeof(uint64_t) + rows.rows.size() * sizeof(float);
}

bool TableCopy::Hold(uint64_t bytes) {
  held_ += bytes;
  if (held_ <= taken_) return true;
  const uint64_t more = (held_ - taken_ + kMemoryStep - 1) / kMemoryStep * kMemoryStep;
  if (!memory_->Take(more)) {
    Fail();
    return false;
  }
  taken_ += more;
  return true;
}

void TableCopy::LetGo(uint64_t bytes) {
  held_ -= bytes;
  if (taken_ - held_ < 2 * kMemoryStep) return;
  const uint64_t less = (taken_ - held_) / kMemoryStep * kMemoryStep;
  memory_->GiveBack(less);
  taken_ -= less;
}

// The copy cannot be completed: drops everything.
void TableCopy::Fail() {
  no_memory_ = true;
  changed_.clear();
  aside_.clear();
  last_page_ = nullptr;
  if (taken_ > 0) memory_->GiveBack(taken_);
  held_ = taken_ = 0;
}

}  // namespace paceline::table
