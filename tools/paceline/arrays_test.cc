// Arrays of other programs: which are accepted, and that no others are.
#include "tools/paceline/arrays.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "libs/base/little_endian.h"
#include "libs/base/test_util/status_matchers.h"

namespace paceline::tool {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class StringSource final : public snapshot::Source {
 public:
  explicit StringSource(std::string bytes) : bytes_(std::move(bytes)) {}
  absl::StatusOr<size_t> Read(char* to, size_t size) override {
    const size_t got = bytes_.copy(to, size, at_);
    at_ += got;
    return got;
  }

 private:
  std::string bytes_;
  size_t at_ = 0;
};

std::string Npy(const std::string& dictionary, int version = 1) {
  std::string header("\x93NUMPY", 6);
  header += static_cast<char>(version);
  header += '\0';
  char length[4];
  StoreU32(static_cast<uint32_t>(dictionary.size()), length);
  header.append(length, version == 1 ? 2 : 4);
  return header + dictionary;
}

absl::StatusOr<ArrayShape> Read(const std::string& header) {
  StringSource source(header);
  uint64_t bytes = 0;
  return ReadNpyHeader(source, &bytes);
}

TEST(NpyTest, HeadersAreThoseOfNumPy) {
  const ArrayShape array{.type = ArrayType::kU64, .shape = {3}};
  const std::string header = NpyHeader(array);
  EXPECT_EQ(header.size(), kNpyHeaderBytes);
  EXPECT_EQ(header.size() % 64, 0u);
  EXPECT_THAT(header, HasSubstr("{'descr': '<u8', 'fortran_order': False, 'shape': (3,), }  "));
  EXPECT_EQ(*Read(header), array);
  const ArrayShape large{.shape = {UINT64_MAX, UINT64_MAX, UINT64_MAX}};
  EXPECT_EQ(*Read(NpyHeader(large)), large);
  for (const int version : {1, 2, 3}) {
    const auto read = Read(Npy("{'shape': (2, 5), 'fortran_order': False, \"descr\": '<f4'}", version));
    ASSERT_THAT(read, IsOk());
    EXPECT_THAT(read->shape, ElementsAre(2, 5));
  }
  EXPECT_THAT(Read(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (), }"))->shape, ElementsAre());
}

TEST(NpyTest, NamesTheFault) {
  const auto says = [](const std::string& header, const std::string& what) {
    EXPECT_THAT(Read(header), StatusIs(StatusCode::kInvalidArgument, HasSubstr(what))) << header;
  };
  const std::string good = Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }");
  for (size_t i = 0; i < good.size(); ++i) EXPECT_FALSE(Read(good.substr(0, i)).ok()) << i;
  says("PK\3\4 and more", "does not begin");
  says(Npy("{}", 4), "format 4");
  says(Npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}"), "'<f4'");
  says(Npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}"), "one type");
  says(Npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2)}"), "ascontiguousarray");
  says(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}"), "sizes");
  says(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}"), "sizes");
  says(Npy("{'descr': '<f4', 'fortran_order': False}"), "expected 'descr'");
  says(Npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}"), "each once");
  says(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x"), "behind");
  says(Npy(std::string(70'000, ' '), 2), "at most 65536");
  EXPECT_THAT(BytesOf(ArrayShape{.shape = {uint64_t{1} << 32, uint64_t{1} << 32}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("2^63")));
  EXPECT_EQ(*BytesOf(ArrayShape{.shape = {uint64_t{1} << 60, 0}}), 0u);
}

TEST(SafetensorsTest, HeadersAreChecked) {
  const std::string a = R"("a": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]})";
  const std::string b = R"("b": {"dtype": "U64", "shape": [1], "data_offsets": [8, 16]})";
  const auto good =
      ParseSafetensors(absl::StrCat("{", b, ", \"__metadata__\": {\"x\": \"y\"}, ", a, "}  "), 16);
  ASSERT_THAT(good, IsOk());
  EXPECT_EQ(good->at("a").begin, 0u);
  EXPECT_THAT(good->at("a").shape.shape, ElementsAre(2, 1));
  EXPECT_EQ(good->at("b").shape.type, ArrayType::kU64);
  const auto says = [](const std::string& header, uint64_t bytes, const std::string& what) {
    EXPECT_THAT(ParseSafetensors(header, bytes), StatusIs(StatusCode::kInvalidArgument, HasSubstr(what)))
        << header;
  };
  says(absl::StrCat("{", a, ", ", b, "}"), 17, "17 bytes of data; expected 16");
  says(absl::StrCat("{", a, ", ", b, "}"), 15, "within the file's 15");
  says(absl::StrCat("{", b, "}"), 16, "begins at 8; expected 0");
  says(absl::StrCat("{", a, ", ", a, "}"), 8, "each array once");
  says("", 0, "no JSON object");
  says("[]", 0, "no JSON object");
  says("{\"a\": {\"b\": {\"c\": {\"d\": {\"e\": 1}}}}}", 0, "no JSON object");
  says(std::string(100'000, '['), 0, "no JSON object");
  says("{\"a\": 1}", 0, "dtype none");
  const auto with = [&](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return absl::StrCat("{\"a\": {\"dtype\": \"", dtype, "\", \"shape\": ", shape,
                        ", \"data_offsets\": ", offsets, "}}");
  };
  says(with("BF16", "[2]", "[0, 4]"), 4, "dtype BF16; expected F32");
  says(with("F32", "[-1]", "[0, 4]"), 4, "shape: expected");
  says(with("F32", "[1.5]", "[0, 4]"), 4, "shape: expected");
  says(with("F32", "[1]", "[0, 4, 8]"), 8, "expected two numbers");
  says(with("F32", "[1]", "[4, 0]"), 8, "expected 4 bytes");
  says(with("F32", "[4294967296, 4294967296]", "[0, 4]"), 4, "2^63");
}

class ArrayFilesTest : public ::testing::Test {
 protected:
  ArrayFilesTest() {
    char folder[] = "/tmp/paceline-arrays-test-XXXXXX";
    path_ = mkdtemp(folder);
  }
  ~ArrayFilesTest() override { std::filesystem::remove_all(path_); }
  std::string Put(const std::string& name, const std::string& bytes) {
    std::ofstream(path_ + "/" + name, std::ios::binary) << bytes;
    return path_ + "/" + name;
  }
  std::string Get(const std::string& name) {
    std::ifstream file(path_ + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // All of an array; an error at its end too.
  static absl::StatusOr<std::string> All(ArrayFile& file, const std::string& array) {
    auto source = file.Open(array);
    if (!source.ok()) return source.status();
    std::string bytes(1000, '\0');
    const auto got = (*source)->Read(bytes.data(), bytes.size());
    if (!got.ok()) return got.status();
    bytes.resize(*got);
    return bytes;
  }
  std::string Zip() {
    const std::string a = Put("a", NpyHeader({.shape = {2}}) + "12345678");
    const std::string k = Put("k", NpyHeader({.type = ArrayType::kU64, .shape = {1}}) + "abcdefgh");
    EXPECT_THAT(WriteZip({{.name = "a.npy", .file = a}, {.name = "k.npy", .file = k}}, path_ + "/zip"),
                IsOk());
    return Get("zip");
  }

  std::string path_;
};

TEST_F(ArrayFilesTest, AnArchiveReturnsItsArrays) {
  Zip();
  const auto npz = OpenNpz(path_ + "/zip");
  ASSERT_THAT(npz, IsOk());
  EXPECT_EQ((*npz)->arrays().size(), 2u);
  EXPECT_THAT(All(**npz, "a"), ::paceline::testing::IsOkAndHolds("12345678"));
  EXPECT_THAT(All(**npz, "k"), ::paceline::testing::IsOkAndHolds("abcdefgh"));
  EXPECT_THAT(All(**npz, "b"), StatusIs(StatusCode::kNotFound, HasSubstr("no array 'b'")));
  EXPECT_THAT(OpenNpz(path_ + "/none"), StatusIs(StatusCode::kInvalidArgument, HasSubstr("/none")));
}

// Each byte changed: it is refused at once, or when it is read to its end, or it is in no member's bytes.
TEST_F(ArrayFilesTest, DamageOfAnArchiveIsNotHandedOn) {
  const std::string whole = Zip();
  size_t refused = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string bytes = whole;
    bytes[i] = static_cast<char>(bytes[i] ^ 0x10);
    auto npz = OpenNpzInMemory(bytes);
    if (!npz.ok()) {
      ++refused;
      continue;
    }
    for (const auto& [name, shape] : (*npz)->arrays()) {
      const auto read = All(**npz, name);
      if (!read.ok()) {
        ++refused;
      } else {
        EXPECT_THAT(*read, ::testing::AnyOf("12345678", "abcdefgh")) << "byte " << i;
      }
    }
    EXPECT_FALSE(OpenNpzInMemory(whole.substr(0, i)).ok()) << "cut off at " << i;
  }
  EXPECT_GT(refused, 200u);
}

TEST_F(ArrayFilesTest, MembersThatAreNoArraysAreNamed) {
  const std::string text = Put("t", "text");
  ASSERT_THAT(WriteZip({{.name = "t.txt", .file = text}}, path_ + "/zip"), IsOk());
  EXPECT_THAT(OpenNpz(path_ + "/zip"), StatusIs(StatusCode::kInvalidArgument, HasSubstr("t.txt: expected")));
  const std::string longer = Put("l", NpyHeader({.shape = {2}}) + "123456789");
  ASSERT_THAT(WriteZip({{.name = "l.npy", .file = longer}}, path_ + "/zip2"), IsOk());
  EXPECT_THAT(OpenNpz(path_ + "/zip2"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("l.npy: 201 bytes; expected 192 and 8")));
}

TEST_F(ArrayFilesTest, SafetensorsAreReadFromTheirFile) {
  const std::string header =
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"k":{"dtype":"I64","shape":[1],"data_offsets":[8,16]}})";
  char length[8];
  StoreU64(header.size(), length);
  const std::string whole = std::string(length, 8) + header + "12345678abcdefgh";
  const auto file = OpenSafetensors(Put("m", whole));
  ASSERT_THAT(file, IsOk());
  EXPECT_THAT(All(**file, "a"), ::paceline::testing::IsOkAndHolds("12345678"));
  EXPECT_THAT(All(**file, "k"), ::paceline::testing::IsOkAndHolds("abcdefgh"));
  for (size_t i = 0; i < whole.size(); i += 3) {
    EXPECT_THAT(OpenSafetensors(Put("m", whole.substr(0, i))),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("/m: ")));
  }
  StoreU64(UINT64_MAX, length);
  EXPECT_THAT(OpenSafetensors(Put("m", std::string(length, 8) + header)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("its header would have")));
}

}  // namespace
}  // namespace paceline::tool
