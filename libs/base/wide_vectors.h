#pragma once

// PACELINE_WIDE_VECTORS before a function's definition compiles it twice, for any x86-64 and for those with
// AVX2, and takes the one that fits the machine when the program starts. For loops over values; the outcome
// is the same bit for bit, as nothing is contracted (cmake/PacelineToolchain.cmake). Thread sanitizer cannot
// start programs that choose so early.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define PACELINE_WIDE_VECTORS __attribute__((target_clones("avx2", "default")))
#else
#define PACELINE_WIDE_VECTORS
#endif
