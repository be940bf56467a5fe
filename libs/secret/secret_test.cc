#include "libs/secret/secret.h"

#include <set>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline::secret {
namespace {

TEST(SecretTest, HasAllBitsOfTwoDraws) {
  class Fixed final : public world::Random {
   public:
    uint64_t Next() override { return next_++; }

   private:
    uint64_t next_ = 0x0123456789abcdef;
  } random;
  EXPECT_EQ(Draw(random), "0123456789abcdef0123456789abcdf0");
  world::SplitMix64 other(1);
  std::set<std::string> drawn;
  for (int i = 0; i < 100; ++i) drawn.insert(Draw(other));
  EXPECT_EQ(drawn.size(), 100u);
  for (const std::string& secret : drawn) EXPECT_EQ(secret.size(), 32u);
}

// FIPS 180-2, appendix B.1, and of nothing.
TEST(SecretTest, DigestsAreSha256) {
  EXPECT_EQ(absl::BytesToHexString(Sha256("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(absl::BytesToHexString(Sha256("")),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(SecretTest, OnlyEqualSecretsAreEqual) {
  EXPECT_TRUE(Equal("", ""));
  EXPECT_TRUE(Equal("abc", "abc"));
  EXPECT_FALSE(Equal("abc", "abd"));
  EXPECT_FALSE(Equal("abc", "ab"));
  EXPECT_FALSE(Equal("", "a"));
}

TEST(ShownTest, OpensOnlyItsOwnSession) {
  const Shown shown("mine");
  EXPECT_FALSE(shown.Opens(Sha256("another's")));
  EXPECT_FALSE(shown.Opens(Sha256("")));
  EXPECT_FALSE(shown.opened());
  EXPECT_TRUE(shown.Opens("")) << "a session of level 1 has no secret";
  EXPECT_FALSE(shown.opened());
  EXPECT_TRUE(shown.Opens(Sha256("mine")));
  EXPECT_TRUE(shown.opened());
}

TEST(ShownTest, AnEmptySecretOpensNothing) {
  EXPECT_FALSE(Shown("").Opens(Sha256("mine")));
  EXPECT_FALSE(Shown(Sha256("mine")).Opens(Sha256("mine"))) << "who has read a segment has not the secret";
}

}  // namespace
}  // namespace paceline::secret
