#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Early return for errors, under the names and meaning of Abseil's own macros, so that they can be swapped
// for Abseil's once the installed version ships them.
#define ABSL_RETURN_IF_ERROR(expr)                                        \
  do {                                                                    \
    if (absl::Status paceline_status_ = (expr); !paceline_status_.ok()) { \
      return paceline_status_;                                            \
    }                                                                     \
  } while (false)

#define PACELINE_CONCAT_INNER_(a, b) a##b
#define PACELINE_CONCAT_(a, b) PACELINE_CONCAT_INNER_(a, b)
#define ABSL_ASSIGN_OR_RETURN(lhs, expr) \
  PACELINE_ASSIGN_OR_RETURN_(PACELINE_CONCAT_(paceline_statusor_, __LINE__), lhs, expr)
#define PACELINE_ASSIGN_OR_RETURN_(tmp, lhs, expr) \
  auto tmp = (expr);                               \
  if (!tmp.ok()) {                                 \
    return std::move(tmp).status();                \
  }                                                \
  lhs = std::move(tmp).value()
