#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paceline::examples {

// Images of one size, and what each of them shows.
struct Images {
  size_t pixels = 0;            // of an image
  uint32_t classes = 0;         // 1 more than the largest label
  std::vector<uint8_t> values;  // image after image, a byte a pixel
  std::vector<uint8_t> labels;  // of each image

  size_t count() const { return labels.size(); }
  const uint8_t* of(size_t image) const { return values.data() + image * pixels; }
};

// What there is to train on, and to score the model on.
struct SplitImages {
  Images train;
  Images test;

  // Of both.
  uint32_t classes() const { return train.classes > test.classes ? train.classes : test.classes; }
};

// Reads the four IDX files of `folder` (Y. LeCun, C. Cortes, C. Burges: The MNIST database of handwritten
// digits): train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte.
// An error names the file, and what was expected of it.
absl::StatusOr<SplitImages> ReadImages(const std::string& folder);

// The content of a file of images and of one of labels; the names are for errors.
absl::StatusOr<Images> ParseImages(absl::string_view images, absl::string_view images_name,
                                   absl::string_view labels, absl::string_view labels_name);

}  // namespace paceline::examples
