# paceline_library, paceline_binary and paceline_test: one way to declare a target, and the guard
# that refuses a dependency pointing upwards.
#
#   paceline_library(NAME ring LAYER pure SRCS a.cc HDRS a.h DEPS paceline::base absl::status TESTS a_test.cc)
#
# LAYER is one of (lowest first):
#   base      libs/base, libs/world, libs/secret       std, Abseil and OpenSSL only
#   pure      libs/history, filter, ring, table, clock, wire, log   no threads, clocks, disks, sockets
#             libs/engine, snapshot, sim
#   adapter   libs/history_file, metrics, stores       files, RocksDB, prometheus-cpp
#             libs/carrier, tcp, shm, rpc, dial        threads, sockets, gRPC
#   service   services/*, sdk/cpp
#   program   tools, examples, bench, tests
# A target may depend on Paceline targets of its own layer or a lower one. The shard, the coordinator and
# the SDK are all `service`, and may not depend on each other: scripts/check reads the includes for that.
#
# A TESTS entry `a_test.cc` becomes the ctest executable `<NAME>_a_test`, labelled `unit`. What starts threads
# goes under THREAD_TESTS instead: it is labelled `thread` too, and so runs under ThreadSanitizer as well.
#
# Under a sanitizer, compiling and linking take the time: libraries below the programs are then compiled in batches
# of files, and a library's tests become one executable, `<NAME>_tests` (`<NAME>_thread_tests`). So no two files of a
# library may give one name to two things of their unnamed namespaces, nor two of its tests one name to two suites.

set(PACELINE_LAYERS base pure adapter service program)

function(_paceline_guard target layer)
  list(FIND PACELINE_LAYERS ${layer} mine)
  if(mine EQUAL -1)
    message(FATAL_ERROR "${target}: LAYER '${layer}' is none of: ${PACELINE_LAYERS}")
  endif()
  foreach(dep IN LISTS ARGN)
    if(NOT dep MATCHES "^paceline::")
      continue()
    endif()
    string(REPLACE "paceline::" "paceline_" real ${dep})
    if(NOT TARGET ${real})
      message(FATAL_ERROR "${target}: depends on ${dep}, which is not declared above it")
    endif()
    get_target_property(theirs ${real} PACELINE_LAYER)
    list(FIND PACELINE_LAYERS ${theirs} height)
    if(height GREATER mine)
      message(FATAL_ERROR "${target} (layer ${layer}) may not depend on ${dep} (layer ${theirs}): dependencies point down")
    endif()
  endforeach()
endfunction()

# A test is compiled for its compiler's time, not for its own.
set(_paceline_test_flags $<$<CONFIG:RelWithDebInfo>:-O1>)

# Precompiled headers, one set per kind of code, so that pure code never sees gRPC by accident.
function(_paceline_pch name)
  file(WRITE ${CMAKE_BINARY_DIR}/pch/${name}.cc "")
  add_library(paceline_pch_${name} OBJECT ${CMAKE_BINARY_DIR}/pch/${name}.cc)
  cmake_parse_arguments(arg "" "" "HEADERS;LIBS" ${ARGN})
  target_link_libraries(paceline_pch_${name} PUBLIC paceline_flags Threads::Threads ${arg_LIBS})
  target_precompile_headers(paceline_pch_${name} PRIVATE ${arg_HEADERS})
endfunction()

set(_std_headers <algorithm> <cstdint> <functional> <map> <memory> <optional> <string> <string_view> <utility> <variant> <vector>)
_paceline_pch(pure HEADERS ${_std_headers}
  <absl/container/flat_hash_map.h> <absl/status/statusor.h> <absl/strings/cord.h> <absl/strings/str_cat.h> <absl/types/span.h>
  LIBS absl::flat_hash_map absl::statusor absl::cord absl::strings absl::span)
_paceline_pch(rpc HEADERS ${_std_headers}
  <absl/container/flat_hash_map.h> <absl/status/statusor.h> <absl/strings/str_cat.h>
  <grpcpp/grpcpp.h> <google/protobuf/message.h>
  LIBS gRPC::grpc++ protobuf::libprotobuf absl::flat_hash_map absl::statusor absl::strings)
_paceline_pch(test HEADERS ${_std_headers}
  <absl/container/flat_hash_map.h> <absl/status/statusor.h> <absl/strings/str_cat.h> <gmock/gmock.h> <gtest/gtest.h>
  LIBS GTest::gtest GTest::gmock absl::flat_hash_map absl::statusor absl::strings)
target_compile_options(paceline_pch_test PRIVATE ${_paceline_test_flags})

function(_paceline_use_pch target layer)
  if(layer STREQUAL base OR layer STREQUAL pure)
    target_precompile_headers(${target} REUSE_FROM paceline_pch_pure)
  else()
    target_precompile_headers(${target} REUSE_FROM paceline_pch_rpc)
  endif()
endfunction()

function(paceline_library)
  cmake_parse_arguments(arg "" "NAME;LAYER" "SRCS;HDRS;DEPS;TESTS;THREAD_TESTS;TEST_DEPS" ${ARGN})
  set(target paceline_${arg_NAME})
  _paceline_guard(${target} ${arg_LAYER} ${arg_DEPS})
  if(arg_SRCS)
    add_library(${target} STATIC ${arg_SRCS} ${arg_HDRS})
    target_link_libraries(${target} PUBLIC $<BUILD_INTERFACE:paceline_flags> Threads::Threads ${arg_DEPS})
    if(arg_LAYER STREQUAL base OR arg_LAYER STREQUAL pure)
      target_link_libraries(${target} PUBLIC absl::flat_hash_map absl::statusor absl::cord absl::strings absl::span)
    else()
      target_link_libraries(${target} PUBLIC gRPC::grpc++ protobuf::libprotobuf absl::flat_hash_map absl::statusor absl::strings)
    endif()
    _paceline_use_pch(${target} ${arg_LAYER})
    if(PACELINE_SANITIZE AND NOT arg_LAYER STREQUAL program)
      set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    endif()
  else()
    add_library(${target} INTERFACE ${arg_HDRS})
    target_link_libraries(${target} INTERFACE $<BUILD_INTERFACE:paceline_flags> Threads::Threads ${arg_DEPS})
  endif()
  set_target_properties(${target} PROPERTIES PACELINE_LAYER ${arg_LAYER} EXPORT_NAME ${arg_NAME})
  add_library(paceline::${arg_NAME} ALIAS ${target})
  if(PACELINE_TESTS)
    _paceline_library_tests(${arg_NAME} "" "${arg_TESTS}" "${arg_TEST_DEPS}")
    _paceline_library_tests(${arg_NAME} THREADS "${arg_THREAD_TESTS}" "${arg_TEST_DEPS}")
  endif()
endfunction()

# Headers in `folder`, of this one, are for users: seen as they will be once they are installed.
function(paceline_public_headers name folder)
  target_include_directories(paceline_${name} PUBLIC
    $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/${folder}> $<INSTALL_INTERFACE:include>)
  target_compile_features(paceline_${name} PUBLIC cxx_std_20)
endfunction()

function(_paceline_library_tests name threads tests deps)
  if(NOT tests)
    return()
  endif()
  set(options LABEL unit ${threads} DEPS paceline::${name} ${deps})
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "^${CMAKE_SOURCE_DIR}/libs/")
    list(APPEND options SANITIZED)
  endif()
  if(PACELINE_SANITIZE)
    string(TOLOWER "${threads}" kind)
    string(REPLACE "threads" "_thread" kind "${kind}")
    paceline_test(NAME ${name}${kind}_tests SRCS ${tests} TIMEOUT 400 ${options})
    return()
  endif()
  foreach(test IN LISTS tests)
    get_filename_component(base ${test} NAME_WE)
    paceline_test(NAME ${name}_${base} SRCS ${test} ${options})
  endforeach()
endfunction()

function(paceline_binary)
  cmake_parse_arguments(arg "" "NAME;LAYER" "SRCS;DEPS" ${ARGN})
  if(NOT arg_LAYER)
    set(arg_LAYER program)
  endif()
  _paceline_guard(${arg_NAME} ${arg_LAYER} ${arg_DEPS})
  add_executable(${arg_NAME} ${arg_SRCS})
  target_link_libraries(${arg_NAME} PRIVATE paceline_flags Threads::Threads gRPC::grpc++ protobuf::libprotobuf
    absl::flat_hash_map absl::statusor absl::strings ${arg_DEPS})
  _paceline_use_pch(${arg_NAME} ${arg_LAYER})
endfunction()

# Everything that ThreadSanitizer should see: the tests declared with THREADS.
add_custom_target(thread_tests)
# What AddressSanitizer and UBSan see of every commit: the tests declared with SANITIZED, and what they start.
add_custom_target(sanitized_tests)

# paceline_test(NAME n LABEL unit|sim|process|slow SRCS … DEPS … [THREADS] [SANITIZED] [TIMEOUT seconds])
# SANITIZED labels it `sanitized`.
function(paceline_test)
  cmake_parse_arguments(arg "THREADS;SANITIZED" "NAME;LABEL;TIMEOUT" "SRCS;DEPS;ENVIRONMENT" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 180)
  endif()
  if(PACELINE_SANITIZE)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 4")  # sanitizers cost a factor of two to ten
  endif()
  add_executable(${arg_NAME} ${arg_SRCS})
  target_link_libraries(${arg_NAME} PRIVATE paceline_flags Threads::Threads
    GTest::gmock GTest::gtest GTest::gtest_main absl::flat_hash_map absl::statusor absl::strings ${arg_DEPS})
  target_compile_options(${arg_NAME} PRIVATE ${_paceline_test_flags})
  target_precompile_headers(${arg_NAME} REUSE_FROM paceline_pch_test)
  set_target_properties(${arg_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(arg_THREADS)
    list(APPEND arg_LABEL thread)
    add_dependencies(thread_tests ${arg_NAME})
  endif()
  if(arg_SANITIZED)
    list(APPEND arg_LABEL sanitized)
    add_dependencies(sanitized_tests ${arg_NAME})
  endif()
  add_test(NAME ${arg_NAME} COMMAND ${arg_NAME})
  set_tests_properties(${arg_NAME} PROPERTIES LABELS "${arg_LABEL}" TIMEOUT ${arg_TIMEOUT} ENVIRONMENT "${arg_ENVIRONMENT}")
endfunction()
