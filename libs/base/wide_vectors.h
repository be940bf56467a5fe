#pragma once

// PACELINE_WIDE_VECTORS before a function's definition compiles the function twice, for any x86-64 and for
// those with AVX2; the loader picks the variant that fits the machine. For loops over values. Both give the
// same result bit for bit, since nothing is contracted (cmake/PacelineToolchain.cmake). ThreadSanitizer
// cannot start programs that choose this early. PACELINE_WIDEST_VECTORS adds a third variant, with AVX-512:
// for loops that multiply 64-bit numbers or compare
// them without a sign, which AVX2 cannot.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define PACELINE_WIDE_VECTORS __attribute__((target_clones("avx2", "default")))
#define PACELINE_WIDEST_VECTORS __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define PACELINE_WIDE_VECTORS
#define PACELINE_WIDEST_VECTORS
#endif
