#pragma once

#include <gmock/gmock.h>

#include <ostream>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Matchers for absl::Status and absl::StatusOr under the names of Abseil's own, which the installed version
// does not ship yet.
//
//   EXPECT_THAT(store.Write(batch), IsOk());
//   EXPECT_THAT(table.Pull(keys), StatusIs(absl::StatusCode::kNotFound, HasSubstr("weights")));
//   EXPECT_THAT(TakeVarint(bytes), IsOkAndHolds(300));
namespace paceline::testing {

namespace internal {

inline const absl::Status& StatusOf(const absl::Status& status) {
  return status;
}
template <class T>
const absl::Status& StatusOf(const absl::StatusOr<T>& value) {
  return value.status();
}

template <class Inner>
class OkAndHolds {
 public:
  explicit OkAndHolds(Inner inner) : inner_(std::move(inner)) {}

  template <class StatusOrT>
  operator ::testing::Matcher<StatusOrT>() const {  // NOLINT: matchers convert implicitly
    return ::testing::Matcher<StatusOrT>(new Impl<const StatusOrT&>(inner_));
  }

 private:
  template <class StatusOrRef>
  class Impl : public ::testing::MatcherInterface<StatusOrRef> {
    using Value = typename std::remove_cvref_t<StatusOrRef>::value_type;

   public:
    explicit Impl(const Inner& inner) : inner_(::testing::SafeMatcherCast<const Value&>(inner)) {}

    void DescribeTo(std::ostream* os) const override {
      *os << "is OK and holds a value that ";
      inner_.DescribeTo(os);
    }
    void DescribeNegationTo(std::ostream* os) const override {
      *os << "is not OK or holds a value that ";
      inner_.DescribeNegationTo(os);
    }
    bool MatchAndExplain(StatusOrRef actual, ::testing::MatchResultListener* listener) const override {
      if (!actual.ok()) {
        *listener << "whose status is " << actual.status();
        return false;
      }
      return inner_.MatchAndExplain(*actual, listener);
    }

   private:
    ::testing::Matcher<const Value&> inner_;
  };

  Inner inner_;
};

}  // namespace internal

// An OK status, or a StatusOr that holds a value.
MATCHER(IsOk, negation ? "is not OK" : "is OK") {
  const absl::Status& status = internal::StatusOf(arg);
  if (!status.ok()) {
    *result_listener << "which is " << status;
  }
  return status.ok();
}

// A status of this code whose message also matches.
MATCHER_P2(StatusIs, code, message,
           "has code " + absl::StatusCodeToString(code) + " and a message that " +
               ::testing::DescribeMatcher<std::string>(message)) {
  const absl::Status& status = internal::StatusOf(arg);
  *result_listener << "which is " << status;
  return status.code() == code &&
         ::testing::Matches(::testing::SafeMatcherCast<std::string>(message))(std::string(status.message()));
}

inline auto StatusIs(absl::StatusCode code) {
  return StatusIs(code, ::testing::_);
}

// A StatusOr with a value that equals or matches `inner`.
template <class Inner>
internal::OkAndHolds<std::decay_t<Inner>> IsOkAndHolds(Inner&& inner) {
  return internal::OkAndHolds<std::decay_t<Inner>>(std::forward<Inner>(inner));
}

}  // namespace paceline::testing
