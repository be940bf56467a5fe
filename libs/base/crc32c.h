#pragma once

#include <cstdint>
#include <string_view>

// CRC-32C (Castagnoli), the checksum of every stored Paceline format: reflected polynomial 0x82f63b78,
// initial value and final exclusive-or all ones, as in RFC 3720. It finds accidents, not forgeries.
namespace paceline {

// Of `data`. Uses the processor's instruction where there is one (15 GB/s of long pieces), tables otherwise
// (about 1 GB/s). Thread-safe.
uint32_t Crc32c(std::string_view data);

// Of a ++ b, given crc = Crc32c(a): checksums of data that lies in pieces.
uint32_t ExtendCrc32c(uint32_t crc, std::string_view b);

namespace internal {

// ExtendCrc32c by tables, also where the processor has an instruction for it. For tests.
uint32_t ExtendCrc32cPortable(uint32_t crc, std::string_view b);

}  // namespace internal

}  // namespace paceline
