#include "libs/table/batch.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "libs/base/wide_vectors.h"
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

// Copies between a row and its place among others, plane by plane.
template <uint32_t kDim>
void CopyPlanes(const float* from, size_t from_stride, float* to, size_t to_stride, uint32_t dim,
                size_t planes) {
  if (kDim != 0) dim = kDim;
  for (size_t plane = 0; plane < planes; ++plane) {
    std::memcpy(to + plane * to_stride, from + plane * from_stride, dim * sizeof(float));
  }
}

// Gathers rows side by side, so that the rule runs over many values at once instead of once per row. The rule
// treats each value separately, so the result is the same bit for bit. Rows are of kDim values, or of `dim`
// if kDim is 0.
template <uint32_t kDim>
void ApplyGathered(const RuleKernel& kernel, uint32_t dim, absl::Span<const RowRef> refs,
                   ValueView gradients) {
  if (kDim != 0) dim = kDim;
  constexpr size_t kLanes = expression::Evaluator::kBlock;
  constexpr size_t kPlanesMax = 1 + expression::kSlotsMax;  // a value and its slots
  static_assert(expression::kSlotsMax >= 4, "rules that are built in have at most four slots");
  float lanes[kPlanesMax * kLanes];
  const size_t planes = kernel.floats_per_value();
  if (planes > kPlanesMax) Broken(absl::StrCat("a rule with ", planes, " floats a value"));
  const size_t at_once = kLanes / dim;
  RowFinder find;
  RowFinder find_ahead;
  for (size_t begin = 0; begin < refs.size(); begin += at_once) {
    const size_t count = std::min(at_once, refs.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      if (begin + i + kPrefetchAhead < refs.size()) {
        PrefetchRow(refs[begin + i + kPrefetchAhead], dim * planes * sizeof(float), find_ahead);
      }
      const RowRef& ref = refs[begin + i];
      float* const to = lanes + i * dim;
      if (ref.page == nullptr) {
        for (size_t plane = 0; plane < planes; ++plane) std::fill_n(to + plane * kLanes, dim, 0.0f);
      } else {
        CopyPlanes<kDim>(find(ref), ref.page->slot_stride(), to, kLanes, dim, planes);
      }
    }
    kernel.Apply(lanes, kLanes, gradients.subview(begin * dim, count * dim).data(), count * dim);
    for (size_t i = 0; i < count; ++i) {
      const RowRef& ref = refs[begin + i];
      if (ref.page == nullptr) continue;
      CopyPlanes<kDim>(lanes + i * dim, kLanes, find(ref), ref.page->slot_stride(), dim, planes);
    }
  }
}

// Applies each row's gradient by itself.
void ApplyByRow(const RuleKernel& kernel, uint32_t dim, absl::Span<const RowRef> refs, ValueView gradients) {
  const size_t row_bytes = dim * kernel.floats_per_value() * sizeof(float);
  RowFinder find_ahead;
  for (size_t i = 0; i < refs.size(); ++i) {
    if (i + kPrefetchAhead < refs.size()) PrefetchRow(refs[i + kPrefetchAhead], row_bytes, find_ahead);
    const RowRef& ref = refs[i];
    if (ref.page == nullptr) continue;
    kernel.Apply(ref.page->Values(ref.row), ref.page->slot_stride(), gradients.subview(i * dim, dim).data(),
                 dim);
  }
}

void ApplyDistinct(const RuleKernel& kernel, uint32_t dim, absl::Span<const RowRef> refs,
                   ValueView gradients) {
  if (dim == 1) return ApplyGathered<1>(kernel, dim, refs, gradients);
  // A row that is wider than half a block leaves no room for another one.
  if (kernel.prefers_blocks() && dim <= expression::Evaluator::kBlock / 2) {
    return ApplyGathered<0>(kernel, dim, refs, gradients);
  }
  ApplyByRow(kernel, dim, refs, gradients);
}

}  // namespace

PACELINE_WIDEST_VECTORS bool Ascending(KeyView keys) {
  uint64_t descents = 0;
  for (size_t i = 1; i < keys.size(); ++i) descents |= keys[i] <= keys[i - 1] ? 1 : 0;
  return descents == 0;
}

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
  if (repeats.empty()) return ApplyDistinct(kernel, dim, refs, gradients);
  Folded folded(refs, repeats, dim, kernel.last_wins());
  std::vector<RowRef> others(refs.begin(), refs.end());
  for (size_t i = 0; i < refs.size(); ++i) {
    const bool taken = refs[i].page != nullptr && folded.Take(refs[i], gradients.subview(i * dim, dim));
    if (taken) others[i].page = nullptr;
  }
  ApplyDistinct(kernel, dim, others, gradients);
  folded.Apply(kernel);
}

}  // namespace paceline::table
