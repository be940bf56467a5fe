#include "libs/tcp/preamble.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace paceline::tcp {
namespace {

std::string BytesOf(const Preamble& preamble) {
  return {reinterpret_cast<const char*>(&preamble), sizeof(preamble)};
}

TEST(Preamble, NamesTheKindOfStream) {
  for (const world::StreamKind kind : {world::StreamKind::kPush, world::StreamKind::kPull,
                                       world::StreamKind::kSubscribe, world::StreamKind::kReplicate}) {
    const Preamble preamble = PreambleOf(kind);
    EXPECT_EQ(KindOf(preamble), kind);
    EXPECT_EQ(HowItBegins(BytesOf(preamble)), Begins::kDirect);
  }
  // As docs/wire.md has them.
  EXPECT_EQ(BytesOf(PreambleOf(world::StreamKind::kPull)), std::string("PACELN01\2\0\0\0\0\0\0\0", 16));
  Preamble preamble = PreambleOf(world::StreamKind::kPush);
  preamble.kind = 0;
  EXPECT_FALSE(KindOf(preamble).has_value());
  preamble.kind = 5;
  EXPECT_FALSE(KindOf(preamble).has_value());
}

TEST(Preamble, IsToldFromHttp2AfterOneByteOrSome) {
  const std::string whole = BytesOf(PreambleOf(world::StreamKind::kPush));
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(HowItBegins(whole.substr(0, size)), Begins::kNotClear) << size;
  }
  EXPECT_EQ(HowItBegins("PRI * HTTP/2.0\r\n"), Begins::kOtherwise);
  EXPECT_EQ(HowItBegins("P"), Begins::kNotClear);
  EXPECT_EQ(HowItBegins("PR"), Begins::kOtherwise);
  EXPECT_EQ(HowItBegins("PACELN02" + whole.substr(8)), Begins::kOtherwise) << "of a later release";
}

}  // namespace
}  // namespace paceline::tcp
