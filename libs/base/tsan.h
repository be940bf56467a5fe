#pragma once

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

// For ThreadSanitizer: an order between threads that it cannot see, because a library makes it that was not
// built for it. What one thread did before OrderBefore(at) comes before what another does after
// OrderAfter(at) of the same address. Nothing at all in other builds: these make no order, they report one.
namespace paceline {

#if defined(__SANITIZE_THREAD__)
inline void OrderBefore(void* at) {
  __tsan_release(at);
}
inline void OrderAfter(void* at) {
  __tsan_acquire(at);
}
#else
inline void OrderBefore(void*) {}
inline void OrderAfter(void*) {}
#endif

}  // namespace paceline
