#include "services/coordinator/metadata/facts/nonces.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::coordinator {
namespace {

TEST(NoncesTest, WhatARequestBeganIsFoundByItsNonce) {
  NoncesRecord nonces = With(With({}, 11, 1), 12, 2, /*clock=*/9);
  ASSERT_NE(FindNonce(nonces, 11), nullptr);
  EXPECT_EQ(FindNonce(nonces, 11)->job(), 1u);
  EXPECT_EQ(FindNonce(nonces, 12)->job(), 2u);
  EXPECT_EQ(FindNonce(nonces, 12)->clock(), 9u);
  EXPECT_EQ(FindNonce(nonces, 13), nullptr);
}

TEST(NoncesTest, TheFirstRequestOfANonceCounts) {
  const NoncesRecord nonces = With(With({}, 11, 1), 11, 2);
  EXPECT_EQ(nonces.begun_size(), 1);
  EXPECT_EQ(FindNonce(nonces, 11)->job(), 1u);
}

TEST(NoncesTest, ARequestWithoutANonceIsNotRemembered) {
  const NoncesRecord nonces = With({}, 0, 1);
  EXPECT_EQ(nonces.begun_size(), 0);
  EXPECT_EQ(FindNonce(nonces, 0), nullptr);
}

TEST(NoncesTest, TheNewestAreKept) {
  NoncesRecord nonces;
  for (uint32_t i = 1; i <= kNoncesMax + 2; ++i) nonces = With(std::move(nonces), 1000 + i, i);
  EXPECT_EQ(nonces.begun_size(), kNoncesMax);
  EXPECT_EQ(FindNonce(nonces, 1002), nullptr);
  ASSERT_NE(FindNonce(nonces, 1003), nullptr);
  EXPECT_EQ(FindNonce(nonces, 1003)->job(), 3u);
  EXPECT_NE(FindNonce(nonces, 1000 + kNoncesMax + 2), nullptr);
}

TEST(NoncesTest, ManyDrainsPushOutNoRestore) {
  NoncesRecord nonces = With({}, 7, /*job=*/3);
  for (uint32_t i = 1; i <= 2 * kNoncesMax; ++i) nonces = With(std::move(nonces), 1000 + i, /*job=*/0);
  EXPECT_NE(FindNonce(nonces, 7), nullptr);
  EXPECT_NE(FindNonce(nonces, 1000 + 2 * kNoncesMax), nullptr);
  EXPECT_LT(nonces.begun_size(), kNoncesMax);
}

}  // namespace
}  // namespace paceline::coordinator
