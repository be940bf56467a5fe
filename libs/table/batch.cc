#include "libs/table/batch.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "libs/table/invariant.h"

namespace paceline::table {
namespace {

// The gradients of rows that occur repeatedly, folded into one per row.
class Folded {
 public:
  Folded(absl::Span<const RowRef> refs, const std::vector<uint32_t>& repeats, uint32_t dim, bool last_wins)
      : dim_(dim), last_wins_(last_wins) {
    for (const uint32_t position : repeats) {
      const RowRef& ref = refs[position];
      if (index_.try_emplace({ref.page, ref.row}, rows_.size()).second) rows_.push_back(ref);
    }
    taken_.resize(rows_.size());
    sums_.resize(rows_.size() * dim);
  }

  // Takes the gradient, and returns true, if `ref` is one of the rows that occur repeatedly.
  bool Take(const RowRef& ref, ValueView gradient) {
    const auto it = index_.find({ref.page, ref.row});
    if (it == index_.end()) return false;
    float* sum = sums_.data() + it->second * dim_;
    if (last_wins_ || !taken_[it->second]) {
      std::memcpy(sum, gradient.data(), dim_ * sizeof(float));
    } else {
      for (uint32_t i = 0; i < dim_; ++i) sum[i] = sum[i] + gradient[i];
    }
    taken_[it->second] = true;
    return true;
  }

  void Apply(const RuleKernel& kernel) const {
    for (size_t i = 0; i < rows_.size(); ++i) {
      const ValueView sum(absl::MakeConstSpan(sums_).subspan(i * dim_, dim_));
      kernel.Apply(rows_[i].page->Values(rows_[i].row), rows_[i].page->slot_stride(), sum.data(), dim_);
    }
  }

 private:
  uint32_t dim_;
  bool last_wins_;
  absl::flat_hash_map<std::pair<const Page*, uint32_t>, size_t> index_;  // into rows_; never iterated
  std::vector<RowRef> rows_;
  std::vector<bool> taken_;
  std::vector<float> sums_;
};

// Rows of one value are gathered side by side, so that the rule runs over many at once instead of once per
// row. The rule treats each value separately, so the result is the same bit for bit.
void ApplyToScalars(const RuleKernel& kernel, absl::Span<const RowRef> refs, ValueView gradients) {
  constexpr size_t kLanes = 64;
  constexpr size_t kFloatsMax = 3;  // a value and its slots
  float lanes[kFloatsMax * kLanes] = {};
  const size_t floats = kernel.floats_per_value();
  if (floats > kFloatsMax) Broken(absl::StrCat("a rule with ", floats, " floats a value"));
  RowFinder find;
  RowFinder find_ahead;
  for (size_t begin = 0; begin < refs.size(); begin += kLanes) {
    const size_t count = std::min(kLanes, refs.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      if (begin + i + kPrefetchAhead < refs.size()) {
        PrefetchRow(refs[begin + i + kPrefetchAhead], floats * sizeof(float), find_ahead);
      }
      const RowRef& ref = refs[begin + i];
      if (ref.page == nullptr) continue;
      const float* row = find(ref);
      lanes[i] = row[0];
      for (size_t f = 1; f < floats; ++f) lanes[f * kLanes + i] = row[f * ref.page->slot_stride()];
    }
    kernel.Apply(lanes, kLanes, gradients.subview(begin, count).data(), count);
    for (size_t i = 0; i < count; ++i) {
      const RowRef& ref = refs[begin + i];
      if (ref.page == nullptr) continue;
      float* row = find(ref);
      row[0] = lanes[i];
      for (size_t f = 1; f < floats; ++f) row[f * ref.page->slot_stride()] = lanes[f * kLanes + i];
    }
  }
}

}  // namespace

std::vector<uint32_t> TouchAndFindRepeats(absl::Span<RowRef> refs, Lsn version, bool distinct) {
  std::vector<uint32_t> repeats;
  if (distinct) {
    const Page* touched = nullptr;  // rows of a page often follow each other
    for (RowRef& ref : refs) {
      if (ref.page == nullptr || ref.page == touched) continue;
      if (ref.page->CameWith(version)) {
        ref.page = nullptr;
      } else {
        ref.page->Touch(version);
        touched = ref.page;
      }
    }
    return repeats;
  }
  for (size_t i = 0; i < refs.size(); ++i) {
    RowRef& ref = refs[i];
    if (ref.page == nullptr) continue;
    if (ref.page->CameWith(version)) {
      ref.page = nullptr;
      continue;
    }
    ref.page->Touch(version);
    if (ref.page->Mark(ref.row)) repeats.push_back(static_cast<uint32_t>(i));
  }
  for (const RowRef& ref : refs) {
    if (ref.page != nullptr) ref.page->ClearMarksAround(ref.row);
  }
  return repeats;
}

void ApplyBatch(const RuleKernel& kernel, uint32_t dim, absl::Span<const RowRef> refs,
                const std::vector<uint32_t>& repeats, ValueView gradients) {
  if (dim == 1 && repeats.empty()) return ApplyToScalars(kernel, refs, gradients);
  Folded folded(refs, repeats, dim, kernel.last_wins());
  const size_t row_bytes = dim * kernel.floats_per_value() * sizeof(float);
  RowFinder find_ahead;
  for (size_t i = 0; i < refs.size(); ++i) {
    if (i + kPrefetchAhead < refs.size()) PrefetchRow(refs[i + kPrefetchAhead], row_bytes, find_ahead);
    const RowRef& ref = refs[i];
    if (ref.page == nullptr) continue;
    const ValueView gradient = gradients.subview(i * dim, dim);
    if (!repeats.empty() && folded.Take(ref, gradient)) continue;
    kernel.Apply(ref.page->Values(ref.row), ref.page->slot_stride(), gradient.data(), dim);
  }
  folded.Apply(kernel);
}

}  // namespace paceline::table
