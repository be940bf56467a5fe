#include "examples/mlp/images.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "examples/lib/text_file.h"

namespace paceline::examples {
namespace {

// IDX of unsigned bytes: two zeros, 8, and the number of dimensions; then each dimension, big-endian.
constexpr uint32_t kImagesMagic = 0x0803;
constexpr uint32_t kLabelsMagic = 0x0801;
// A header that says more is wrong.
constexpr uint64_t kPixelsMax = uint64_t{1} << 32;
// The first layer has a row of weights for each pixel of an image.
constexpr uint64_t kPixelsOfImageMax = uint64_t{1} << 20;

uint32_t BigEndian(absl::string_view text, size_t at) {
  uint32_t number = 0;
  for (size_t i = at; i < at + 4; ++i) number = number << 8 | static_cast<uint8_t>(text[i]);
  return number;
}

absl::Status CheckHeader(absl::string_view text, absl::string_view name, uint32_t magic, size_t header) {
  if (text.size() < header) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", text.size(),
                                                   " bytes; expected an IDX header of ", header,
                                                   "; unpack the file if it is a .gz"));
  }
  if (BigEndian(text, 0) == magic) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, ": begins with ", absl::Hex(BigEndian(text, 0), absl::kZeroPad8), "; expected ",
      absl::Hex(magic, absl::kZeroPad8), " (IDX, unsigned bytes); unpack the file if it is a .gz"));
}

absl::StatusOr<Images> ReadPart(const std::string& folder, const std::string& part) {
  const std::string images = absl::StrCat(folder, "/", part, "-images-idx3-ubyte");
  const std::string labels = absl::StrCat(folder, "/", part, "-labels-idx1-ubyte");
  const absl::StatusOr<std::string> pixels = ReadFile(images);
  if (!pixels.ok()) return pixels.status();
  const absl::StatusOr<std::string> classes = ReadFile(labels);
  if (!classes.ok()) return classes.status();
  return ParseImages(*pixels, images, *classes, labels);
}

}  // namespace

absl::StatusOr<Images> ParseImages(absl::string_view images, absl::string_view images_name,
                                   absl::string_view labels, absl::string_view labels_name) {
  constexpr size_t kImagesHeader = 16, kLabelsHeader = 8;
  if (absl::Status s = CheckHeader(images, images_name, kImagesMagic, kImagesHeader); !s.ok()) return s;
  if (absl::Status s = CheckHeader(labels, labels_name, kLabelsMagic, kLabelsHeader); !s.ok()) return s;
  const uint64_t count = BigEndian(images, 4);
  const uint64_t pixels = uint64_t{BigEndian(images, 8)} * BigEndian(images, 12);
  if (pixels > kPixelsOfImageMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(images_name, ": images of ", pixels, " pixels; expected at most ", kPixelsOfImageMax));
  }
  if (count == 0 || pixels == 0 || pixels > kPixelsMax / count) {
    return absl::InvalidArgumentError(absl::StrCat(images_name, ": ", count, " images of ", pixels,
                                                   " pixels; expected 1 to ", kPixelsMax, " pixels in all"));
  }
  if (images.size() != kImagesHeader + count * pixels) {
    return absl::InvalidArgumentError(absl::StrCat(images_name, ": ", images.size(), " bytes; expected ",
                                                   kImagesHeader + count * pixels, " for ", count,
                                                   " images of ", pixels, " pixels"));
  }
  if (BigEndian(labels, 4) != count || labels.size() != kLabelsHeader + count) {
    return absl::InvalidArgumentError(absl::StrCat(labels_name, ": ", BigEndian(labels, 4), " labels in ",
                                                   labels.size(), " bytes; expected one for each of the ",
                                                   count, " images of ", images_name));
  }
  Images result;
  result.pixels = pixels;
  const auto byte = [](char c) { return static_cast<uint8_t>(c); };
  result.values.resize(count * pixels);
  std::transform(images.begin() + kImagesHeader, images.end(), result.values.begin(), byte);
  result.labels.resize(count);
  std::transform(labels.begin() + kLabelsHeader, labels.end(), result.labels.begin(), byte);
  result.classes = uint32_t{*std::max_element(result.labels.begin(), result.labels.end())} + 1;
  return result;
}

absl::StatusOr<SplitImages> ReadImages(const std::string& folder) {
  absl::StatusOr<Images> train = ReadPart(folder, "train");
  if (!train.ok()) return train.status();
  absl::StatusOr<Images> test = ReadPart(folder, "t10k");
  if (!test.ok()) return test.status();
  if (train->pixels != test->pixels) {
    return absl::InvalidArgumentError(absl::StrCat(folder, ": images of ", train->pixels,
                                                   " pixels to train on, and of ", test->pixels,
                                                   " to test; expected one size"));
  }
  return SplitImages{.train = *std::move(train), .test = *std::move(test)};
}

}  // namespace paceline::examples
