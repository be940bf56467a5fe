#include "examples/mlp/images.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::examples {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Idx(std::initializer_list<uint32_t> header, std::initializer_list<int> bytes) {
  std::string text;
  for (const uint32_t number : header) {
    for (int shift = 24; shift >= 0; shift -= 8) text.push_back(static_cast<char>(number >> shift & 0xff));
  }
  for (const int byte : bytes) text.push_back(static_cast<char>(byte));
  return text;
}

const std::string kTwoImages = Idx({0x0803, 2, 1, 3}, {0, 128, 255, 1, 2, 3});
const std::string kTwoLabels = Idx({0x0801, 2}, {9, 4});

std::string ErrorOf(const std::string& images, const std::string& labels) {
  return std::string(ParseImages(images, "images", labels, "labels").status().message());
}

TEST(ImagesTest, ImagesAndLabels) {
  const Images images = ParseImages(kTwoImages, "images", kTwoLabels, "labels").value();
  EXPECT_EQ(images.count(), 2u);
  EXPECT_EQ(images.pixels, 3u);
  EXPECT_EQ(images.classes, 10u);
  EXPECT_THAT(images.values, ElementsAre(0, 128, 255, 1, 2, 3));
  EXPECT_THAT(images.labels, ElementsAre(9, 4));
  EXPECT_EQ(images.of(1)[0], 1);
}

TEST(ImagesTest, WhatIsWrongIsNamed) {
  EXPECT_THAT(ErrorOf("", kTwoLabels), HasSubstr("images: 0 bytes; expected an IDX header of 16"));
  EXPECT_THAT(ErrorOf(kTwoLabels + "12345678", kTwoLabels), HasSubstr("images: begins with 00000801"));
  EXPECT_THAT(ErrorOf(kTwoImages, kTwoImages), HasSubstr("labels: begins with 00000803"));
  EXPECT_THAT(ErrorOf(kTwoImages + "1", kTwoLabels), HasSubstr("images: 23 bytes; expected 22 for 2 images"));
  EXPECT_THAT(ErrorOf(kTwoImages, Idx({0x0801, 3}, {1, 2, 3})), HasSubstr("labels: 3 labels in 11 bytes"));
  EXPECT_THAT(ErrorOf(kTwoImages, Idx({0x0801, 2}, {1})), HasSubstr("labels: 2 labels in 9 bytes"));
  EXPECT_THAT(ErrorOf(Idx({0x0803, 0, 1, 3}, {}), kTwoLabels), HasSubstr("images: 0 images of 3 pixels"));
  EXPECT_THAT(ErrorOf(Idx({0x0803, 0xffffffff, 1000, 1000}, {}), kTwoLabels),
              HasSubstr("4294967295 images of 1000000 pixels"));
  // A layer of so many inputs would take all memory.
  EXPECT_THAT(ErrorOf(Idx({0x0803, 1, 65'536, 65'536}, {}), kTwoLabels),
              HasSubstr("images of 4294967296 pixels; expected at most 1048576"));
}

}  // namespace
}  // namespace paceline::examples
