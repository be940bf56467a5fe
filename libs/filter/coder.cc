#include "libs/filter/coder.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "libs/base/planted.h"
#include "libs/base/status.h"
#include "libs/filter/compress.h"
#include "libs/filter/delta.h"
#include "libs/filter/pack.h"

namespace paceline::filter {
namespace {

constexpr size_t kWordBytes = sizeof(uint64_t);

// The time that one filter takes, told when it has ended.
class Timed {
 public:
  Timed(const world::Clock& clock, Observer& observer, Filter filter)
      : clock_(clock), observer_(observer), filter_(filter), since_(clock.Now()) {}
  void Tell(uint64_t plain, uint64_t coded) {
    observer_.Filtered(filter_, plain, coded, clock_.Now() - since_);
  }

 private:
  const world::Clock& clock_;
  Observer& observer_;
  const Filter filter_;
  const absl::Time since_;
};

absl::Cord CordOf(std::string bytes) {
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  return absl::MakeCordFromExternal(*owner, [owner](absl::string_view) {});
}

absl::Cord CordOf(std::shared_ptr<const std::string> bytes) {
  const absl::string_view view = *bytes;
  return absl::MakeCordFromExternal(view, [bytes = std::move(bytes)](absl::string_view) {});
}

// Bytes on their way through filters: borrowed at first.
class Bytes {
 public:
  explicit Bytes(absl::string_view bytes) : view_(bytes) {}
  absl::string_view view() const { return view_; }
  void Become(std::string bytes) {
    own_ = std::move(bytes);
    view_ = own_;
  }
  std::string Take() && { return view_.data() == own_.data() ? std::move(own_) : std::string(view_); }

 private:
  std::string own_;
  absl::string_view view_;
};

void CompressInto(Filter filter, Bytes& bytes, const world::Clock& clock, Observer& observer) {
  Timed timed(clock, observer, filter);
  const size_t plain = bytes.view().size();
  bytes.Become(Compress(filter, bytes.view()));
  timed.Tell(plain, bytes.view().size());
}

absl::Status DecompressInto(Filter filter, size_t bytes_max, Bytes& bytes, const world::Clock& clock,
                            Observer& observer) {
  Timed timed(clock, observer, filter);
  const size_t coded = bytes.view().size();
  ABSL_ASSIGN_OR_RETURN(std::string plain, Decompress(filter, bytes.view(), bytes_max));
  bytes.Become(std::move(plain));
  timed.Tell(bytes.view().size(), coded);
  return absl::OkStatus();
}

}  // namespace

void KeyEncoder::Begin(uint64_t list_bytes) {
  if (Planted(Bug::kListsOutliveStream) && lists_.lists() > 0) return;
  lists_ = KeyListSender(std::min(list_bytes, kListBytesMax));
}

FilterSet KeyEncoder::Encode(FilterSet wanted, size_t stride, absl::Cord& keys,
                             const LastingMemory& lasting) {
  FilterSet applied;
  if (keys.empty() || (wanted & FilterSet::OfKeys()).empty() || keys.size() % (kWordBytes * stride) != 0)
    return applied;
  const absl::string_view plain = keys.Flatten();
  std::string head;
  if (wanted.Has(Filter::kKeys)) {
    Timed timed(clock_, observer_, Filter::kKeys);
    applied.Add(Filter::kKeys);
    const bool named = lists_.Begin(plain, head, lasting);
    timed.Tell(plain.size(), head.size() + (named ? 0 : plain.size()));
    if (named) {
      keys = absl::Cord(head);
      return applied;
    }
  }
  Bytes bytes(plain);
  if (wanted.Has(Filter::kDelta)) {
    Timed timed(clock_, observer_, Filter::kDelta);
    std::string deltas = EncodeDelta(plain, stride);
    const bool fewer = deltas.size() < plain.size();
    if (fewer) bytes.Become(std::move(deltas));
    if (fewer) applied.Add(Filter::kDelta);
    timed.Tell(plain.size(), bytes.view().size());
  }
  if (const std::optional<Filter> compression = wanted.compression()) {
    CompressInto(*compression, bytes, clock_, observer_);
    applied.Add(*compression);
  }
  if (applied.empty()) return applied;
  absl::Cord coded = CordOf(std::move(bytes).Take());
  coded.Prepend(head);
  keys = std::move(coded);
  return applied;
}

absl::StatusOr<std::shared_ptr<ListNotes>> KeyDecoder::Decode(FilterSet applied, size_t stride,
                                                              size_t bytes_max, absl::Cord& keys) {
  applied = applied & FilterSet::OfKeys();
  if (applied.empty() || keys.empty()) return nullptr;
  const absl::string_view coded = keys.Flatten();
  std::string_view in(coded.data(), coded.size());
  KeyListReceiver::Begun begun;
  if (applied.Has(Filter::kKeys)) {
    Timed timed(clock_, observer_, Filter::kKeys);
    ABSL_ASSIGN_OR_RETURN(begun, lists_.Begin(in));
    const size_t head = coded.size() - in.size();
    timed.Tell(begun.named != nullptr ? begun.named->size() : in.size(), head + in.size());
    if (begun.named != nullptr) {
      if (begun.named->size() > bytes_max) {
        return absl::InvalidArgumentError("keys: list: it has more bytes than a frame may have");
      }
      keys = CordOf(std::move(begun.named));
      return std::move(begun.notes);
    }
  }
  Bytes bytes(absl::string_view(in.data(), in.size()));
  if (const std::optional<Filter> compression = applied.compression()) {
    ABSL_RETURN_IF_ERROR(DecompressInto(*compression, bytes_max, bytes, clock_, observer_));
  }
  if (applied.Has(Filter::kDelta)) {
    Timed timed(clock_, observer_, Filter::kDelta);
    const size_t deltas = bytes.view().size();
    ABSL_ASSIGN_OR_RETURN(std::string plain, DecodeDelta(bytes.view(), stride, bytes_max));
    bytes.Become(std::move(plain));
    timed.Tell(bytes.view().size(), deltas);
  }
  auto plain = std::make_shared<const std::string>(std::move(bytes).Take());
  if (begun.index.has_value()) ABSL_RETURN_IF_ERROR(lists_.Keep(*begun.index, plain));
  keys = CordOf(std::move(plain));
  return nullptr;
}

FilterSet EncodeValues(FilterSet wanted, uint32_t dim, absl::Cord& values, const world::Clock& clock,
                       Observer& observer) {
  FilterSet applied;
  const size_t row_bytes = size_t{dim} * sizeof(float);
  if (values.empty() || (wanted & FilterSet::OfValues()).empty() || values.size() % row_bytes != 0)
    return applied;
  Bytes bytes(values.Flatten());
  for (const Filter packing : {Filter::kF16, Filter::kBf16, Filter::kInt8}) {
    if (!wanted.Has(packing)) continue;
    Timed timed(clock, observer, packing);
    const size_t plain = bytes.view().size();
    if (auto packed = Pack(wanted.precision(), dim, bytes.view())) {
      bytes.Become(*std::move(packed));
      applied.Add(packing);
    }
    timed.Tell(plain, bytes.view().size());
  }
  if (const std::optional<Filter> compression = wanted.compression()) {
    CompressInto(*compression, bytes, clock, observer);
    applied.Add(*compression);
  }
  if (!applied.empty()) values = CordOf(std::move(bytes).Take());
  return applied;
}

absl::Status DecodeValues(FilterSet applied, size_t bytes_max, absl::Cord& values, const world::Clock& clock,
                          Observer& observer) {
  applied = applied & FilterSet::OfValues();
  if (applied.empty() || values.empty()) return absl::OkStatus();
  Bytes bytes(values.Flatten());
  if (const std::optional<Filter> compression = applied.compression()) {
    ABSL_RETURN_IF_ERROR(DecompressInto(*compression, bytes_max, bytes, clock, observer));
  }
  for (const Filter packing : {Filter::kF16, Filter::kBf16, Filter::kInt8}) {
    if (!applied.Has(packing)) continue;
    Timed timed(clock, observer, packing);
    const size_t packed = bytes.view().size();
    ABSL_ASSIGN_OR_RETURN(std::string plain, Unpack(applied.precision(), bytes.view(), bytes_max));
    bytes.Become(std::move(plain));
    timed.Tell(bytes.view().size(), packed);
  }
  values = CordOf(std::move(bytes).Take());
  return absl::OkStatus();
}

}  // namespace paceline::filter
