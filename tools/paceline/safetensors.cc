// .safetensors: the header's length (8), the header as JSON, the data.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/little_endian.h"
#include "libs/base/status.h"
#include "tools/paceline/arrays.h"

namespace paceline::tool {
namespace {

using nlohmann::json;

absl::Status Wrong(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("its safetensors header: ", what));
}

// nullopt: it is no JSON object, is nested deeper than a header is, or names something twice.
std::optional<json> ParseObject(absl::string_view text) {
  bool sound = true;
  std::vector<std::set<std::string>> names;
  const auto look = [&](int depth, json::parse_event_t event, json& parsed) {
    constexpr int kDepthMax = 4;
    if (depth > kDepthMax) sound = false;
    if (event == json::parse_event_t::object_start) names.emplace_back();
    if (event == json::parse_event_t::object_end && !names.empty()) names.pop_back();
    if (event == json::parse_event_t::key && !names.empty() &&
        !names.back().insert(parsed.get<std::string>()).second) {
      sound = false;
    }
    return sound;  // what is not kept takes no memory
  };
  json object = json::parse(text.begin(), text.end(), look, /*allow_exceptions=*/false);
  if (!sound || object.is_discarded() || !object.is_object()) return std::nullopt;
  return object;
}

std::optional<std::vector<uint64_t>> Numbers(const json& list, size_t most) {
  if (!list.is_array() || list.size() > most) return std::nullopt;
  std::vector<uint64_t> numbers;
  for (const json& number : list) {
    if (!number.is_number_unsigned()) return std::nullopt;
    numbers.push_back(number.get<uint64_t>());
  }
  return numbers;
}

absl::StatusOr<SafeTensor> ParseTensor(const std::string& name, const json& entry, uint64_t data_bytes,
                                       uint64_t* end) {
  const auto wrong = [&](absl::string_view what) { return Wrong(absl::StrCat("'", name, "': ", what)); };
  const auto member = [&](const char* key) {
    const auto found = entry.is_object() ? entry.find(key) : entry.end();
    return entry.is_object() && found != entry.end() ? *found : json();
  };
  const json dtype = member("dtype");
  SafeTensor tensor;
  if (dtype == "F32") {
    tensor.shape.type = ArrayType::kF32;
  } else if (dtype == "U64") {
    tensor.shape.type = ArrayType::kU64;
  } else if (dtype == "I64") {
    tensor.shape.type = ArrayType::kI64;
  } else {
    const std::string is = dtype.is_string() ? dtype.get<std::string>().substr(0, 32) : "none";
    return wrong(absl::StrCat("dtype ", is, "; expected F32, or for keys U64 or I64"));
  }
  auto shape = Numbers(member("shape"), kDimensionsMax);
  if (!shape.has_value()) return wrong("shape: expected at most 16 sizes");
  tensor.shape.shape = *std::move(shape);
  const auto offsets = Numbers(member("data_offsets"), 2);
  if (!offsets.has_value() || offsets->size() != 2) return wrong("data_offsets: expected two numbers");
  tensor.begin = (*offsets)[0];
  *end = (*offsets)[1];
  const absl::StatusOr<uint64_t> bytes = BytesOf(tensor.shape);
  if (!bytes.ok()) return wrong(bytes.status().message());
  if (tensor.begin > *end || *end > data_bytes || *end - tensor.begin != *bytes) {
    return wrong(absl::StrCat("data_offsets: [", tensor.begin, ", ", *end, "]; expected ", *bytes,
                              " bytes by its shape, within the file's ", data_bytes));
  }
  return tensor;
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

// A part of a file.
class PartSource final : public snapshot::Source {
 public:
  PartSource(const std::string& path, int fd, uint64_t at, uint64_t left)
      : path_(path), fd_(fd), at_(at), left_(left) {}
  absl::StatusOr<size_t> Read(char* to, size_t size) override {
    size = static_cast<size_t>(std::min<uint64_t>(size, left_));
    size_t done = 0;
    while (done < size) {
      const ssize_t n = pread(fd_, to + done, size - done, static_cast<off_t>(at_));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return absl::ErrnoToStatus(errno, absl::StrCat(path_, ": cannot read"));
      if (n == 0) break;
      done += static_cast<size_t>(n);
      at_ += static_cast<uint64_t>(n);
      left_ -= static_cast<uint64_t>(n);
    }
    return done;
  }

 private:
  const std::string path_;
  const int fd_;
  uint64_t at_;
  uint64_t left_;
};

class SafetensorsFile final : public ArrayFile {
 public:
  explicit SafetensorsFile(const std::string& path)
      : path_(path), fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}

  absl::Status ReadHeader() {
    struct stat stat;
    if (fd_.get() < 0 || fstat(fd_.get(), &stat) != 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat(path_, ": cannot read"));
    }
    const auto size = static_cast<uint64_t>(stat.st_size);
    char length[sizeof(uint64_t)];
    PartSource source(path_, fd_.get(), 0, size);
    ABSL_ASSIGN_OR_RETURN(const size_t got, source.Read(length, sizeof(length)));
    const uint64_t header = got == sizeof(length) ? LoadU64(length) : 0;
    if (got < sizeof(length) || header > size - sizeof(length) || header > kSafetensorsHeaderMax) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": no safetensors file: its header would have ",
                                                     header, " of ", size, " bytes; expected at most ",
                                                     kSafetensorsHeaderMax));
    }
    std::string text(header, '\0');
    ABSL_ASSIGN_OR_RETURN(const size_t read, source.Read(text.data(), text.size()));
    if (read < text.size()) return absl::InvalidArgumentError(absl::StrCat(path_, ": it became shorter"));
    data_ = sizeof(length) + header;
    auto tensors = ParseSafetensors(text, size - data_);
    if (!tensors.ok()) {
      return absl::Status(tensors.status().code(), absl::StrCat(path_, ": ", tensors.status().message()));
    }
    tensors_ = *std::move(tensors);
    for (const auto& [name, tensor] : tensors_) arrays_[name] = tensor.shape;
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<snapshot::Source>> Open(const std::string& array) override {
    const auto found = tensors_.find(array);
    if (found == tensors_.end()) return absl::NotFoundError(absl::StrCat(path_, ": no array '", array, "'"));
    ABSL_ASSIGN_OR_RETURN(const uint64_t bytes, BytesOf(found->second.shape));
    return std::make_unique<PartSource>(path_, fd_.get(), data_ + found->second.begin, bytes);
  }

 private:
  const std::string path_;
  const Descriptor fd_;
  uint64_t data_ = 0;
  std::map<std::string, SafeTensor> tensors_;
};

}  // namespace

absl::StatusOr<std::map<std::string, SafeTensor>> ParseSafetensors(absl::string_view text,
                                                                   uint64_t data_bytes) {
  const std::optional<json> header = ParseObject(text);
  if (!header.has_value()) return Wrong("no JSON object that names each array once");
  std::map<std::string, SafeTensor> tensors;
  std::vector<std::pair<uint64_t, uint64_t>> parts;
  for (const auto& [name, entry] : header->items()) {
    if (name == "__metadata__") continue;
    uint64_t end = 0;
    ABSL_ASSIGN_OR_RETURN(SafeTensor tensor, ParseTensor(name, entry, data_bytes, &end));
    parts.emplace_back(tensor.begin, end);
    tensors[name] = std::move(tensor);
  }
  std::ranges::sort(parts);
  uint64_t at = 0;
  for (const auto& [begin, end] : parts) {
    if (begin != at) return Wrong(absl::StrCat("data_offsets: a part begins at ", begin, "; expected ", at));
    at = end;
  }
  if (at != data_bytes) return Wrong(absl::StrCat(data_bytes, " bytes of data; expected ", at));
  return tensors;
}

absl::StatusOr<std::unique_ptr<ArrayFile>> OpenSafetensors(const std::string& path) {
  auto file = std::make_unique<SafetensorsFile>(path);
  ABSL_RETURN_IF_ERROR(file->ReadHeader());
  return file;
}

}  // namespace paceline::tool
