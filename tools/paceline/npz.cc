// .npz: a ZIP archive of .npy files, by libzip.
#include <zip.h>

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/base/status.h"
#include "tools/paceline/arrays.h"

namespace paceline::tool {
namespace {

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};
using Archive = std::unique_ptr<zip_t, Discard>;
using Member = std::unique_ptr<zip_file_t, Discard>;

std::string TextOf(zip_error_t& error) {
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

class MemberSource final : public snapshot::Source {
 public:
  MemberSource(std::string name, Member member) : name_(std::move(name)), member_(std::move(member)) {}
  // Reads to the end before it says that this is the end: only there libzip has its checksum.
  absl::StatusOr<size_t> Read(char* to, size_t size) override {
    size_t done = 0;
    while (done < size) {
      const zip_int64_t n = zip_fread(member_.get(), to + done, size - done);
      if (n < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat(name_, ": ", zip_error_strerror(zip_file_get_error(member_.get()))));
      }
      if (n == 0) break;
      done += static_cast<size_t>(n);
    }
    return done;
  }

 private:
  const std::string name_;
  const Member member_;
};

class Npz final : public ArrayFile {
 public:
  Npz(std::string path, Archive archive) : path_(std::move(path)), archive_(std::move(archive)) {}

  absl::Status ReadHeaders() {
    constexpr zip_int64_t kMembersMax = 65536;
    const zip_int64_t count = zip_get_num_entries(archive_.get(), 0);
    if (count < 1 || count > kMembersMax) {
      return Wrong("", absl::StrCat(count, " members; expected 1 to ", kMembersMax));
    }
    for (zip_int64_t i = 0; i < count; ++i) {
      ABSL_RETURN_IF_ERROR(ReadHeader(static_cast<zip_uint64_t>(i)));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<snapshot::Source>> Open(const std::string& array) override {
    const auto found = indices_.find(array);
    if (found == indices_.end()) return absl::NotFoundError(absl::StrCat(path_, ": no array '", array, "'"));
    ABSL_ASSIGN_OR_RETURN(std::unique_ptr<snapshot::Source> source, OpenMember(found->second, array));
    uint64_t header = 0;
    ABSL_RETURN_IF_ERROR(ReadNpyHeader(*source, &header).status());
    return source;
  }

 private:
  absl::Status Wrong(absl::string_view member, absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(path_, member.empty() ? "" : ": ", member, ": ", what));
  }

  absl::Status ReadHeader(zip_uint64_t index) {
    zip_stat_t stat;
    if (zip_stat_index(archive_.get(), index, 0, &stat) != 0 || (stat.valid & ZIP_STAT_NAME) == 0 ||
        (stat.valid & ZIP_STAT_SIZE) == 0) {
      return Wrong("", absl::StrCat("member ", index, " has no name, or no size"));
    }
    absl::string_view name = stat.name;
    if (!absl::ConsumeSuffix(&name, ".npy") || name.empty()) {
      return Wrong(stat.name, "expected members named NAME.npy, as numpy.savez makes them");
    }
    if ((stat.valid & ZIP_STAT_ENCRYPTION_METHOD) != 0 && stat.encryption_method != ZIP_EM_NONE) {
      return Wrong(stat.name, "it is encrypted");
    }
    ABSL_ASSIGN_OR_RETURN(const std::unique_ptr<snapshot::Source> source,
                          OpenMember(index, std::string(name)));
    uint64_t header = 0;
    const absl::StatusOr<ArrayShape> shape = ReadNpyHeader(*source, &header);
    if (!shape.ok()) return Wrong(stat.name, shape.status().message());
    const absl::StatusOr<uint64_t> bytes = BytesOf(*shape);
    if (!bytes.ok()) return Wrong(stat.name, bytes.status().message());
    if (stat.size < header || stat.size - header != *bytes) {
      return Wrong(stat.name,
                   absl::StrCat(stat.size, " bytes; expected ", header, " and ", *bytes, " by its shape"));
    }
    if (!arrays_.emplace(name, *shape).second) return Wrong(stat.name, "it is there twice");
    indices_.emplace(name, index);
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<snapshot::Source>> OpenMember(zip_uint64_t index, const std::string& name) {
    Member member(zip_fopen_index(archive_.get(), index, 0));
    if (member == nullptr) return Wrong(name, zip_error_strerror(zip_get_error(archive_.get())));
    return std::make_unique<MemberSource>(absl::StrCat(path_, ": ", name), std::move(member));
  }

  const std::string path_;
  const Archive archive_;
  std::map<std::string, zip_uint64_t> indices_;
};

absl::StatusOr<std::unique_ptr<ArrayFile>> Opened(const std::string& path, zip_source_t* source,
                                                  zip_error_t& error) {
  if (source == nullptr) return absl::InvalidArgumentError(absl::StrCat(path, ": ", TextOf(error)));
  Archive archive(zip_open_from_source(source, ZIP_RDONLY, &error));
  if (archive == nullptr) {
    zip_source_free(source);
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": no ZIP archive that can be read: ", TextOf(error)));
  }
  auto npz = std::make_unique<Npz>(path, std::move(archive));
  ABSL_RETURN_IF_ERROR(npz->ReadHeaders());
  return npz;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ArrayFile>> OpenNpz(const std::string& path) {
  zip_error_t error;
  zip_error_init(&error);
  return Opened(path, zip_source_file_create(path.c_str(), 0, 0, &error), error);
}

absl::StatusOr<std::unique_ptr<ArrayFile>> OpenNpzInMemory(absl::string_view bytes) {
  zip_error_t error;
  zip_error_init(&error);
  return Opened("memory", zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error), error);
}

absl::Status WriteZip(const std::vector<ZipMember>& members, const std::string& path,
                      const std::string& comment) {
  const auto failed = [&](absl::string_view why) {
    return absl::UnknownError(absl::StrCat(path, ": cannot write the archive: ", why));
  };
  int code = 0;
  Archive archive(zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code));
  if (archive == nullptr) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    return failed(TextOf(error));
  }
  for (const ZipMember& member : members) {
    zip_source_t* source = zip_source_file(archive.get(), member.file.c_str(), 0, -1);
    if (source == nullptr) return failed(zip_error_strerror(zip_get_error(archive.get())));
    const zip_int64_t index = zip_file_add(archive.get(), member.name.c_str(), source, ZIP_FL_ENC_UTF_8);
    if (index < 0) {
      zip_source_free(source);
      return failed(zip_error_strerror(zip_get_error(archive.get())));
    }
    // Equal arrays make equal archives, whenever they are written.
    constexpr zip_uint16_t kFirstDayOf1980 = 1 << 5 | 1;
    const auto at = static_cast<zip_uint64_t>(index);
    if (zip_set_file_compression(archive.get(), at, ZIP_CM_STORE, 0) != 0 ||
        zip_file_set_dostime(archive.get(), at, 0, kFirstDayOf1980, 0) != 0) {
      return failed(zip_error_strerror(zip_get_error(archive.get())));
    }
  }
  if (zip_set_archive_comment(archive.get(), comment.data(), static_cast<zip_uint16_t>(comment.size())) !=
      0) {
    return failed(zip_error_strerror(zip_get_error(archive.get())));
  }
  if (zip_close(archive.get()) != 0) return failed(zip_error_strerror(zip_get_error(archive.get())));
  (void)archive.release();  // closed
  return absl::OkStatus();
}

}  // namespace paceline::tool
