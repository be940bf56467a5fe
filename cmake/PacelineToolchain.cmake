# Flags every Paceline target is compiled with, and what makes rebuilding fast.

set(PACELINE_SANITIZE "" CACHE STRING "Value for -fsanitize=, empty for none")
if(PACELINE_SANITIZE)
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")  # assertions on; half the time to compile
else()
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
endif()

add_library(paceline_flags INTERFACE)
# -pthread everywhere: some packages bring it, and a precompiled header is refused where it differs.
# GCC 12's flow analysis loses its way in the destructor of absl::StatusOr; the sanitizers look instead. What it
# says of the bounds of strings that it inlined depends on its mood, so that is no error.
# No contraction: replicas must agree bit for bit whatever the compiler would like to fuse.
target_compile_options(paceline_flags INTERFACE
  -pthread -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Werror
  -Wno-maybe-uninitialized -ffp-contract=off
  $<$<CXX_COMPILER_ID:GNU>:-Wno-error=array-bounds -Wno-error=restrict -Wno-error=stringop-overflow>)
target_include_directories(paceline_flags INTERFACE ${CMAKE_SOURCE_DIR})
if(PACELINE_SANITIZE)
  # Without those checks of UBSan that AddressSanitizer makes as well, or that look for casts to a class that the
  # object does not have: they are a fifth of the time to compile.
  target_compile_options(paceline_flags INTERFACE
    -fsanitize=${PACELINE_SANITIZE} -fno-sanitize=null,object-size,vptr -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(paceline_flags INTERFACE -fsanitize=${PACELINE_SANITIZE})
endif()

# Fuzz targets with libFuzzer (tests/fuzz): everything is compiled so that it can see which branches were taken.
option(PACELINE_FUZZERS "Build the fuzz targets with libFuzzer too; needs Clang" OFF)
if(PACELINE_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    message(FATAL_ERROR "PACELINE_FUZZERS needs -DCMAKE_CXX_COMPILER=clang++, not ${CMAKE_CXX_COMPILER_ID}")
  endif()
  target_compile_options(paceline_flags INTERFACE -fsanitize=fuzzer-no-link -Wno-error)
endif()

find_program(MOLD mold)
if(MOLD)
  target_link_options(paceline_flags INTERFACE -fuse-ld=mold)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  # ccache must be told that a precompiled header's macros and times do not matter.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
endif()
