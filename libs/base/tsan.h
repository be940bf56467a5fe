#pragma once

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

// Tells ThreadSanitizer of an order between threads that it cannot see, because a library made it that was
// built without the sanitizer. What one thread did before OrderBefore(at) happens before what another does
// after OrderAfter(at) of the same address. In other builds they do nothing: they report an order, they do
// not make one.
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
