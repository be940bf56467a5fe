#include "libs/engine/synced_mark.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/crc32c.h"
#include "libs/base/little_endian.h"
#include "libs/base/status.h"

namespace paceline::engine {
namespace {

constexpr absl::string_view kMagic = "PLMARK1\n";
constexpr size_t kFrontBytes = 16;     // magic, checksum, length
constexpr size_t kMarkHeadBytes = 21;  // count, position, whether CURRENT is there, number of files
constexpr size_t kNameMost = 255;
constexpr size_t kFileBytes = 13;  // beside its name

void AppendU32(uint32_t value, std::string& out) {
  char bytes[4];
  StoreU32(value, bytes);
  out.append(bytes, sizeof(bytes));
}

void AppendU64(uint64_t value, std::string& out) {
  char bytes[8];
  StoreU64(value, bytes);
  out.append(bytes, sizeof(bytes));
}

absl::Status Wrong(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("mark: ", what));
}

absl::StatusOr<SyncedMark::File> TakeFile(absl::string_view& bytes) {
  if (bytes.empty()) return Wrong("a file is missing");
  const size_t name = static_cast<unsigned char>(bytes[0]);
  if (bytes.size() < name + kFileBytes) return Wrong("a file is cut");
  SyncedMark::File file{.name = std::string(bytes.substr(1, name)),
                        .bytes = LoadU64(&bytes[1 + name]),
                        .crc32c = LoadU32(&bytes[9 + name])};
  bytes.remove_prefix(name + kFileBytes);
  return file;
}

// `body`: behind a checksum that matches.
absl::StatusOr<SyncedMark> DecodeBody(absl::string_view body) {
  if (body.size() < kMarkHeadBytes || (body[16] & ~1) != 0) return Wrong("it has no head");
  SyncedMark mark{
      .count = LoadU64(body.data()), .position = LoadU64(&body[8]), .current = body[16] != 0, .files = {}};
  uint32_t files = LoadU32(&body[17]);
  body.remove_prefix(kMarkHeadBytes);
  for (; files > 0; --files) {
    ABSL_ASSIGN_OR_RETURN(SyncedMark::File file, TakeFile(body));
    mark.files.push_back(std::move(file));
  }
  if (!body.empty()) return Wrong("there is more than its files");
  return mark;
}

absl::StatusOr<SyncedMark> DecodeSlot(absl::string_view slot) {
  if (slot.size() < kFrontBytes || slot.substr(0, kMagic.size()) != kMagic) return Wrong("there is none");
  const uint32_t length = LoadU32(&slot[12]);
  if (length > slot.size() - kFrontBytes) return Wrong("it is longer than its slot");
  if (Crc32c({&slot[12], 4 + size_t{length}}) != LoadU32(&slot[8])) {
    return Wrong("its checksum does not match its bytes");
  }
  return DecodeBody(slot.substr(kFrontBytes, length));
}

bool IsEmpty(absl::string_view slot) {
  return std::ranges::all_of(slot, [](char byte) { return byte == '\0'; });
}

}  // namespace

const SyncedMark::File* SyncedMark::Find(absl::string_view name) const {
  const auto found = std::ranges::find(files, name, &File::name);
  return found == files.end() ? nullptr : &*found;
}

absl::StatusOr<std::string> EncodeMark(const SyncedMark& mark) {
  std::string body(4, '\0');  // its length
  AppendU64(mark.count, body);
  AppendU64(mark.position, body);
  body.push_back(mark.current ? 1 : 0);
  AppendU32(static_cast<uint32_t>(mark.files.size()), body);
  for (const SyncedMark::File& file : mark.files) {
    if (file.name.size() > kNameMost) return absl::InvalidArgumentError(absl::StrCat("mark: ", file.name));
    body.push_back(static_cast<char>(file.name.size()));
    body += file.name;
    AppendU64(file.bytes, body);
    AppendU32(file.crc32c, body);
  }
  StoreU32(static_cast<uint32_t>(body.size() - 4), body.data());
  std::string bytes(kMagic);
  AppendU32(Crc32c(body), bytes);
  bytes += body;
  if (bytes.size() <= kMarkSlotBytes) return bytes;
  return absl::ResourceExhaustedError(absl::StrCat("mark: ", mark.files.size(), " files take ", bytes.size(),
                                                   " bytes; there is room for ", kMarkSlotBytes));
}

absl::StatusOr<FoundMark> NewestMark(absl::string_view file) {
  if (file.size() != 2 * kMarkSlotBytes) {
    return absl::DataLossError(absl::StrCat("it has ", file.size(), " bytes; expected ", 2 * kMarkSlotBytes));
  }
  const absl::string_view slots[] = {file.substr(0, kMarkSlotBytes), file.substr(kMarkSlotBytes)};
  absl::StatusOr<SyncedMark> marks[] = {DecodeSlot(slots[0]), DecodeSlot(slots[1])};
  if (!marks[0].ok() && !marks[1].ok()) return absl::DataLossError("neither of its two marks is whole");
  const int newest = marks[0].ok() && (!marks[1].ok() || marks[0]->count > marks[1]->count) ? 0 : 1;
  const int other = 1 - newest;
  return FoundMark{.mark = *std::move(marks[newest]),
                   .slot = newest,
                   .other_empty = IsEmpty(slots[other]),
                   .other_whole = marks[other].ok()};
}

absl::Status CheckFiles(const SyncedMark& mark, ReadPrefix read) {
  for (const SyncedMark::File& file : mark.files) {
    const absl::StatusOr<SyncedMark::File> found = read(file.name, file.bytes);
    if (absl::IsNotFound(found.status())) {
      return absl::DataLossError(
          absl::StrCat(file.name, " is missing; ", file.bytes, " bytes of it had been synced"));
    }
    ABSL_RETURN_IF_ERROR(found.status());
    if (found->bytes < file.bytes) {
      return absl::DataLossError(absl::StrCat(file.name, " was cut: it has ", found->bytes, " bytes; ",
                                              file.bytes, " had been synced"));
    }
    if (found->crc32c != file.crc32c) {
      return absl::DataLossError(absl::StrCat(file.name, " is damaged, or is another file: its first ",
                                              file.bytes, " bytes are not those that had been synced"));
    }
  }
  return absl::OkStatus();
}

MarkKeeper::MarkKeeper(SyncedMark last) : last_(std::move(last)), next_(last_) {}

void MarkKeeper::Synced(const SyncedMark::File& file, absl::Time now) {
  const auto known = std::ranges::find(next_.files, file.name, &SyncedMark::File::name);
  if (known == next_.files.end()) {
    next_.files.push_back(file);
    bytes_ahead_ += file.bytes;
  } else {
    if (file.bytes <= known->bytes) return;
    bytes_ahead_ += file.bytes - known->bytes;
    *known = file;
  }
  since_ = std::min(since_, now);
}

void MarkKeeper::Reached(uint64_t position, absl::Time now) {
  if (position <= next_.position) return;
  next_.position = position;
  since_ = std::min(since_, now);
}

void MarkKeeper::HasCurrent(absl::Time now) {
  if (next_.current) return;
  next_.current = true;
  since_ = std::min(since_, now);
}

bool MarkKeeper::Forget(absl::string_view name, absl::Time now) {
  const bool had = next_.Find(name) != nullptr || last_.Find(name) != nullptr;
  std::erase_if(next_.files, [&](const SyncedMark::File& file) { return file.name == name; });
  if (had) since_ = std::min(since_, now);
  return had;
}

absl::Time MarkKeeper::Due() const {
  if (since_ == absl::InfiniteFuture()) return since_;
  return bytes_ahead_ >= kEveryBytes ? absl::InfinitePast() : since_ + kEvery;
}

SyncedMark MarkKeeper::Take() {
  since_ = absl::InfiniteFuture();
  bytes_ahead_ = 0;
  SyncedMark next = next_;
  next.count = last_.count + 1;
  return next;
}

}  // namespace paceline::engine
