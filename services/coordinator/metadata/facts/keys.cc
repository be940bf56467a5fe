#include "services/coordinator/metadata/facts/keys.h"

#include "absl/strings/str_cat.h"

namespace paceline::coordinator::keys {

std::string MapChunk(uint32_t number) {
  return Of(kMapChunks, number);
}

std::string Of(absl::string_view prefix, uint32_t id) {
  return absl::StrCat(prefix, absl::Dec(id, absl::kZeroPad10));
}

std::string Of(absl::string_view prefix, uint64_t id) {
  return absl::StrCat(prefix, absl::Dec(id, absl::kZeroPad20));
}

}  // namespace paceline::coordinator::keys
