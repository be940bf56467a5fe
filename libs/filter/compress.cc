#include "libs/filter/compress.h"

#include <lz4.h>
#include <zstd.h>

#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/base/varint.h"

namespace paceline::filter {
namespace {

// Fewer bytes are not worth a try.
constexpr size_t kWorthwhile = 64;
// The fastest level that is not made for speed alone.
constexpr int kZstdLevel = 1;

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

// 0: it did not fit.
size_t Lz4(absl::string_view from, char* to, size_t room) {
  const int size =
      LZ4_compress_default(from.data(), to, static_cast<int>(from.size()), static_cast<int>(room));
  return size <= 0 ? 0 : static_cast<size_t>(size);
}

size_t Zstd(absl::string_view from, char* to, size_t room) {
  static thread_local const std::unique_ptr<ZSTD_CCtx, FreeContext> context(ZSTD_createCCtx());
  const size_t size = ZSTD_compressCCtx(context.get(), to, room, from.data(), from.size(), kZstdLevel);
  return ZSTD_isError(size) ? 0 : size;
}

bool IsWhole(Filter filter, absl::string_view from, std::string& to) {
  if (filter == Filter::kLz4) {
    const int size = LZ4_decompress_safe(from.data(), to.data(), static_cast<int>(from.size()),
                                         static_cast<int>(to.size()));
    return size >= 0 && static_cast<size_t>(size) == to.size();
  }
  static thread_local const std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  const size_t size = ZSTD_decompressDCtx(context.get(), to.data(), to.size(), from.data(), from.size());
  return !ZSTD_isError(size) && size == to.size();
}

bool IsTooLarge(size_t size) {
  return size > static_cast<size_t>(LZ4_MAX_INPUT_SIZE);
}

}  // namespace

std::string Compress(Filter filter, absl::string_view bytes) {
  std::string out;
  if (bytes.size() >= kWorthwhile && !IsTooLarge(bytes.size())) {
    AppendVarint(bytes.size(), out);
    const size_t head = out.size();
    out.resize(bytes.size());
    char* const to = out.data() + head;
    const size_t room = out.size() - head;
    const size_t size = filter == Filter::kLz4 ? Lz4(bytes, to, room) : Zstd(bytes, to, room);
    if (size > 0) {
      out.resize(head + size);
      return out;
    }
    out.clear();
  }
  AppendVarint(0, out);
  out.append(bytes.data(), bytes.size());
  return out;
}

absl::StatusOr<std::string> Decompress(Filter filter, absl::string_view bytes, size_t bytes_max) {
  std::string_view in(bytes.data(), bytes.size());
  ABSL_ASSIGN_OR_RETURN(const uint64_t size, TakeVarint(in));
  const uint64_t becomes = size == 0 ? in.size() : size;
  if (becomes > bytes_max || IsTooLarge(becomes) || IsTooLarge(in.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat(NameOf(filter), ": becomes ", becomes, " bytes; at most ", bytes_max, " are taken"));
  }
  if (size == 0) return std::string(in);
  std::string out(size, '\0');
  if (IsWhole(filter, absl::string_view(in.data(), in.size()), out)) return out;
  return absl::InvalidArgumentError(
      absl::StrCat(NameOf(filter), ": ", in.size(), " bytes are not a block that becomes ", size, " bytes"));
}

}  // namespace paceline::filter
