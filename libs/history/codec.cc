#include "libs/history/codec.h"

#include <tuple>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/base/varint.h"

namespace paceline::history {
namespace {

class Encoder {
 public:
  explicit Encoder(std::string& out) : out_(out) {}

  template <class T>
  void operator()(const T& field) {
    if constexpr (std::is_enum_v<T> || std::is_integral_v<T>) {
      AppendVarint(static_cast<uint64_t>(field), out_);
    } else {
      AppendVarint(field.v, out_);
    }
  }
  void operator()(const std::string& field) {
    const std::string_view text = std::string_view(field).substr(0, kTextBytesMax);
    AppendVarint(text.size(), out_);
    out_ += text;
  }
  void operator()(const std::vector<std::pair<SessionId, PartNumber>>& field) {
    AppendVarint(field.size(), out_);
    for (const auto& [session, number] : field) {
      AppendVarint(session.v, out_);
      AppendVarint(number, out_);
    }
  }

 private:
  std::string& out_;
};

// Reads fields until one is invalid. Fields beyond the end keep their default: the file is older than the
// field.
class Decoder {
 public:
  explicit Decoder(std::string_view in) : in_(in) {}

  template <class T>
  void operator()(T& field) {
    if (!More()) return;
    if constexpr (std::is_same_v<T, bool>) {
      field = Number(1) != 0;
    } else if constexpr (std::is_enum_v<T>) {
      field = static_cast<T>(Number(UINT8_MAX));
    } else if constexpr (std::is_integral_v<T>) {
      field = static_cast<T>(Number(std::numeric_limits<T>::max()));
    } else {
      using Rep = decltype(field.v);
      field.v = static_cast<Rep>(Number(std::numeric_limits<Rep>::max()));
    }
  }
  void operator()(std::string& field) {
    if (!More()) return;
    const uint64_t size = Number(kTextBytesMax);
    if (!status_.ok()) return;
    if (size > in_.size()) return Fail("a text is longer than its event");
    field = in_.substr(0, size);
    in_.remove_prefix(size);
  }
  void operator()(std::vector<std::pair<SessionId, PartNumber>>& field) {
    if (!More()) return;
    // Each entry takes at least two bytes.
    const uint64_t size = Number(in_.size() / 2);
    for (uint64_t i = 0; i < size && status_.ok(); ++i) {
      const SessionId session(Number(UINT64_MAX));
      field.emplace_back(session, Number(UINT64_MAX));
    }
  }
  const absl::Status& status() const { return status_; }

 private:
  bool More() const { return status_.ok() && !in_.empty(); }
  void Fail(absl::string_view why) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(why);
  }
  uint64_t Number(uint64_t max) {
    if (!status_.ok()) return 0;
    const absl::StatusOr<uint64_t> number = TakeVarint(in_);
    if (!number.ok()) {
      Fail(absl::StrCat("a field is no number: ", number.status().message()));
      return 0;
    }
    if (*number <= max) return *number;
    Fail(absl::StrCat("a field is ", *number, "; expected at most ", max));
    return 0;
  }

  std::string_view in_;
  absl::Status status_;
};

template <size_t I = 0>
absl::StatusOr<std::optional<Event>> Decode(uint64_t kind, std::string_view fields) {
  if constexpr (I == std::variant_size_v<Event>) {
    return std::nullopt;
  } else {
    using Alternative = std::variant_alternative_t<I, Event>;
    if (kind != Alternative::kKind) return Decode<I + 1>(kind, fields);
    Alternative event;
    Decoder decoder(fields);
    std::apply([&decoder](auto&... field) { (decoder(field), ...); }, Alternative::Fields(event));
    if (!decoder.status().ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("event of kind ", kind, ": ", decoder.status().message()));
    }
    return Event(std::move(event));
  }
}

}  // namespace

void Append(const Event& event, std::string& out) {
  std::visit(
      [&out]<class E>(const E& e) {
        AppendVarint(E::kKind, out);
        const size_t at = out.size();
        out.push_back(0);  // the length, one byte in nearly all events
        std::apply([encode = Encoder(out)](auto&... field) mutable { (encode(field), ...); }, E::Fields(e));
        const size_t length = out.size() - at - 1;
        if (length < 128) {
          out[at] = static_cast<char>(length);
          return;
        }
        std::string varint;
        AppendVarint(length, varint);
        out.replace(at, 1, varint);
      },
      event);
}

absl::StatusOr<std::optional<Event>> TakeEvent(std::string_view& in) {
  std::string_view rest = in;
  const absl::StatusOr<uint64_t> kind = TakeVarint(rest);
  if (!kind.ok()) return absl::InvalidArgumentError(absl::StrCat("event: kind: ", kind.status().message()));
  const absl::StatusOr<uint64_t> length = TakeVarint(rest);
  if (!length.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("event: length: ", length.status().message()));
  }
  if (*length > rest.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("event: length: ", *length, "; only ", rest.size(), " bytes follow"));
  }
  absl::StatusOr<std::optional<Event>> event = Decode(*kind, rest.substr(0, *length));
  if (event.ok()) in = rest.substr(*length);
  return event;
}

}  // namespace paceline::history
