// NumPy's .npy header: a magic number, a version, a length, and a Python dictionary as a literal.
#include <cstring>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/little_endian.h"
#include "libs/base/status.h"
#include "tools/paceline/arrays.h"

namespace paceline::tool {
namespace {

constexpr absl::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kHeaderMax = size_t{64} << 10;

absl::Status Wrong(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("its .npy header: ", what));
}

// Reads the literal from left to right.
class Literal {
 public:
  explicit Literal(absl::string_view text) : text_(text) {}

  bool Take(absl::string_view token) {
    Skip();
    if (text_.substr(0, token.size()) != token) return false;
    text_.remove_prefix(token.size());
    return true;
  }
  // Without escapes: names and types have none.
  std::optional<absl::string_view> String() {
    Skip();
    if (text_.empty() || (text_[0] != '\'' && text_[0] != '"')) return std::nullopt;
    const size_t end = text_.find(text_[0], 1);
    if (end == absl::string_view::npos) return std::nullopt;
    const absl::string_view string = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return string;
  }
  std::optional<uint64_t> Number() {
    Skip();
    size_t digits = 0;
    while (digits < text_.size() && absl::ascii_isdigit(static_cast<unsigned char>(text_[digits]))) ++digits;
    uint64_t number = 0;
    if (!absl::SimpleAtoi(text_.substr(0, digits), &number)) return std::nullopt;
    text_.remove_prefix(digits);
    return number;
  }
  bool AtEnd() {
    Skip();
    return text_.empty();
  }

 private:
  void Skip() { text_ = absl::StripLeadingAsciiWhitespace(text_); }
  absl::string_view text_;
};

absl::StatusOr<std::vector<uint64_t>> TakeShape(Literal& literal) {
  std::vector<uint64_t> shape;
  if (!literal.Take("(")) return Wrong("'shape' is no tuple");
  while (!literal.Take(")")) {
    const std::optional<uint64_t> size = literal.Number();
    if (!size.has_value()) return Wrong("'shape' has something else than sizes in it");
    if (shape.size() == kDimensionsMax) return Wrong("'shape' has more than 16 dimensions");
    shape.push_back(*size);
    if (literal.Take(",")) continue;
    if (!literal.Take(")")) return Wrong("'shape' is not closed");
    break;
  }
  return shape;
}

absl::StatusOr<ArrayType> TypeOf(absl::string_view descr) {
  if (descr == "<f4") return ArrayType::kF32;
  if (descr == "<u8") return ArrayType::kU64;
  if (descr == "<i8") return ArrayType::kI64;
  return Wrong(absl::StrCat("type '", descr.substr(0, 32),
                            "'; expected '<f4', or for keys '<u8' or '<i8' (see numpy's astype)"));
}

absl::StatusOr<ArrayShape> ParseHeader(absl::string_view text) {
  Literal literal(text);
  ArrayShape array;
  bool type = false, order = false, shape = false;
  if (!literal.Take("{")) return Wrong("it is no dictionary");
  while (!literal.Take("}")) {
    const std::optional<absl::string_view> key = literal.String();
    if (!key.has_value() || !literal.Take(":")) return Wrong("a key is missing");
    if (*key == "descr" && !type) {
      const std::optional<absl::string_view> descr = literal.String();
      if (!descr.has_value()) return Wrong("'descr' is not the name of one type");
      ABSL_ASSIGN_OR_RETURN(array.type, TypeOf(*descr));
      type = true;
    } else if (*key == "fortran_order" && !order) {
      if (literal.Take("True")) {
        return Wrong("'fortran_order' is True; expected rows one behind the other (numpy.ascontiguousarray)");
      }
      if (!literal.Take("False")) return Wrong("'fortran_order' is neither True nor False");
      order = true;
    } else if (*key == "shape" && !shape) {
      ABSL_ASSIGN_OR_RETURN(array.shape, TakeShape(literal));
      shape = true;
    } else {
      return Wrong(absl::StrCat("key '", key->substr(0, 32),
                                "'; expected 'descr', 'fortran_order' and 'shape', each once"));
    }
    if (literal.Take(",")) continue;
    if (!literal.Take("}")) return Wrong("it is not closed");
    break;
  }
  if (!type || !order || !shape) return Wrong("expected 'descr', 'fortran_order' and 'shape'");
  if (!literal.AtEnd()) return Wrong("there is something behind the dictionary");
  return array;
}

}  // namespace

absl::StatusOr<uint64_t> BytesOf(const ArrayShape& array) {
  if (array.shape.size() > kDimensionsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape: ", array.shape.size(), " dimensions; expected at most ", kDimensionsMax));
  }
  uint64_t bytes = BytesOf(array.type);
  for (const uint64_t size : array.shape) {
    if (size != 0 && bytes > (UINT64_MAX >> 1) / size) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape: [", absl::StrJoin(array.shape, ", "), "] has more than 2^63 bytes"));
    }
    bytes *= size;
  }
  return bytes;
}

std::string NpyHeader(const ArrayShape& array) {
  const char* type = array.type == ArrayType::kF32 ? "<f4" : array.type == ArrayType::kU64 ? "<u8" : "<i8";
  constexpr size_t kBefore = 10;
  std::string text =
      absl::StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': (",
                   absl::StrJoin(array.shape, ", "), array.shape.size() == 1 ? ",), }" : "), }");
  text.resize(kNpyHeaderBytes - kBefore - 1, ' ');
  text.push_back('\n');
  std::string header = absl::StrCat(kMagic, absl::string_view("\x01\x00", 2));
  header.push_back(static_cast<char>(text.size() & 0xff));
  header.push_back(static_cast<char>(text.size() >> 8));
  return header + text;
}

absl::StatusOr<ArrayShape> ReadNpyHeader(snapshot::Source& source, uint64_t* bytes) {
  const auto read = [&](char* to, size_t size) -> absl::Status {
    ABSL_ASSIGN_OR_RETURN(const size_t got, source.Read(to, size));
    return got == size ? absl::OkStatus() : Wrong("it is cut off");
  };
  char start[8];
  ABSL_RETURN_IF_ERROR(read(start, sizeof(start)));
  if (absl::string_view(start, kMagic.size()) != kMagic) return Wrong("it does not begin with \\x93NUMPY");
  const int version = static_cast<unsigned char>(start[6]);
  if (version < 1 || version > 3 || start[7] != 0) {
    return Wrong(absl::StrCat("format ", version, "; expected 1, 2 or 3"));
  }
  const size_t length_bytes = version == 1 ? 2 : 4;
  char length[4] = {};
  ABSL_RETURN_IF_ERROR(read(length, length_bytes));
  const size_t size = LoadU32(length);
  if (size > kHeaderMax) return Wrong(absl::StrCat(size, " bytes; expected at most ", kHeaderMax));
  std::string text(size, '\0');
  ABSL_RETURN_IF_ERROR(read(text.data(), text.size()));
  *bytes = sizeof(start) + length_bytes + size;
  return ParseHeader(text);
}

}  // namespace paceline::tool
