#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/snapshot/files.h"

// Array files of other programs: .npy and .npz of NumPy, and .safetensors. Input is not trusted: every length
// is checked against the file before memory is reserved. Errors are INVALID_ARGUMENT, naming file, array and
// the expectation.
namespace paceline::tool {

enum class ArrayType { kF32, kU64, kI64 };
inline uint64_t BytesOf(ArrayType type) {
  return type == ArrayType::kF32 ? 4 : 8;
}

// Little-endian, the last dimension fastest.
struct ArrayShape {
  ArrayType type = ArrayType::kF32;
  std::vector<uint64_t> shape;
  friend bool operator==(const ArrayShape&, const ArrayShape&) = default;
};
// The most dimensions that an array may have.
inline constexpr size_t kDimensionsMax = 16;
// kInvalidArgument if it has too many dimensions, or its bytes do not fit 63 bits.
absl::StatusOr<uint64_t> BytesOf(const ArrayShape& array);

// -- .npy (numpy/lib/format.py) --

// The header before the bytes of an array. It has a fixed size, so that it can be written when the array is
// complete. REQUIRES: at most 3 dimensions.
inline constexpr size_t kNpyHeaderBytes = 192;
std::string NpyHeader(const ArrayShape& array);
// Reads such a header, of any size up to 64 KiB and of format 1, 2 or 3, and leaves the source behind it.
// Sets `bytes` to its size.
absl::StatusOr<ArrayShape> ReadNpyHeader(snapshot::Source& source, uint64_t* bytes);

// -- files of arrays --

class ArrayFile {
 public:
  virtual ~ArrayFile() = default;
  const std::map<std::string, ArrayShape>& arrays() const { return arrays_; }
  // The bytes of one array, as many as its shape says; several may be read side by side. An error at the end
  // may mean that everything that was read was damaged. The source must not outlive the file.
  virtual absl::StatusOr<std::unique_ptr<snapshot::Source>> Open(const std::string& array) = 0;

 protected:
  std::map<std::string, ArrayShape> arrays_;
};

// The header of https://github.com/huggingface/safetensors: JSON that names arrays, for a file with this many
// bytes of data behind it. Offsets are into the data.
struct SafeTensor {
  ArrayShape shape;
  uint64_t begin = 0;
};
inline constexpr uint64_t kSafetensorsHeaderMax = 100'000'000;
absl::StatusOr<std::map<std::string, SafeTensor>> ParseSafetensors(absl::string_view json,
                                                                   uint64_t data_bytes);

absl::StatusOr<std::unique_ptr<ArrayFile>> OpenSafetensors(const std::string& path);
absl::StatusOr<std::unique_ptr<ArrayFile>> OpenNpz(const std::string& path);
// The same for bytes in memory, which must outlive the file.
absl::StatusOr<std::unique_ptr<ArrayFile>> OpenNpzInMemory(absl::string_view bytes);

// Writes the named files to `path`, each as a member without compression.
struct ZipMember {
  std::string name;
  std::string file;
};
// Adds a comment, which readers of arrays ignore.
absl::Status WriteZip(const std::vector<ZipMember>& members, const std::string& path,
                      const std::string& comment = "");

}  // namespace paceline::tool
