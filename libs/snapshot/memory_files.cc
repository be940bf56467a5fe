#include "libs/snapshot/memory_files.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"

namespace paceline::snapshot {
namespace {

class MemorySource final : public Source {
 public:
  explicit MemorySource(std::string bytes) : bytes_(std::move(bytes)) {}
  absl::StatusOr<size_t> Read(char* to, size_t size) override {
    const size_t read = bytes_.copy(to, size, at_);
    at_ += read;
    return read;
  }

 private:
  const std::string bytes_;
  size_t at_ = 0;
};

absl::Status NoFolder(const std::string& folder, const std::string& file) {
  return absl::NotFoundError(absl::StrCat(folder, "/", file, ": there is no such folder"));
}

class MemoryNewFile final : public NewFile {
 public:
  MemoryNewFile(MemoryFiles& files, std::string folder, std::string file)
      : files_(files), folder_(std::move(folder)), file_(std::move(file)) {}
  absl::Status Append(absl::string_view bytes) override {
    bytes_.append(bytes.data(), bytes.size());
    return files_.error;
  }
  absl::Status Commit() override {
    ABSL_RETURN_IF_ERROR(files_.error);
    const auto folder = files_.folders.find(folder_);
    if (folder == files_.folders.end()) return NoFolder(folder_, file_);
    folder->second[file_] = std::move(bytes_);
    return absl::OkStatus();
  }

 private:
  MemoryFiles& files_;
  const std::string folder_;
  const std::string file_;
  std::string bytes_;
};

}  // namespace

absl::Status MemoryFiles::MakeFolder(const std::string& folder) {
  ABSL_RETURN_IF_ERROR(error);
  folders[folder];
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<NewFile>> MemoryFiles::Create(const std::string& folder,
                                                             const std::string& file) {
  ABSL_RETURN_IF_ERROR(error);
  if (!folders.contains(folder)) return NoFolder(folder, file);
  return std::make_unique<MemoryNewFile>(*this, folder, file);
}

absl::StatusOr<std::unique_ptr<Source>> MemoryFiles::Open(const std::string& folder,
                                                          const std::string& file) {
  ABSL_RETURN_IF_ERROR(error);
  const auto in = folders.find(folder);
  const auto it =
      in == folders.end() ? std::map<std::string, std::string>::iterator() : in->second.find(file);
  if (in == folders.end() || it == in->second.end()) {
    return absl::NotFoundError(absl::StrCat(folder, "/", file, ": there is no such file"));
  }
  return std::make_unique<MemorySource>(it->second);
}

absl::StatusOr<std::vector<std::string>> MemoryFiles::Folders() {
  ABSL_RETURN_IF_ERROR(error);
  std::vector<std::string> names;
  for (const auto& [name, files] : folders) names.push_back(name);
  return names;
}

absl::Status MemoryFiles::Remove(const std::string& folder, const std::string& file) {
  ABSL_RETURN_IF_ERROR(error);
  if (const auto in = folders.find(folder); in != folders.end()) in->second.erase(file);
  return absl::OkStatus();
}

absl::Status MemoryFiles::RemoveFolder(const std::string& folder) {
  ABSL_RETURN_IF_ERROR(error);
  if (stuck.contains(folder)) return absl::PermissionDeniedError(absl::StrCat(folder, ": cannot remove"));
  folders.erase(folder);
  return absl::OkStatus();
}

}  // namespace paceline::snapshot
