# What `cmake --install build/release --prefix DIR` puts into DIR: the programs, the SDK's headers, the static
# libraries behind them, and a CMake package:
#
#   find_package(paceline CONFIG REQUIRED)                      # paceline::sdk
#   find_package(paceline CONFIG REQUIRED COMPONENTS mocks)     # and paceline::mocks, for tests
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Sets `out` to the Paceline targets that `target` is made of, itself among them.
function(_paceline_parts target out)
  set(found ${target})
  set(queue ${target})
  while(queue)
    list(POP_FRONT queue next)
    get_target_property(deps ${next} INTERFACE_LINK_LIBRARIES)
    foreach(dep IN LISTS deps)
      string(REGEX REPLACE "^paceline::" "paceline_" dep "${dep}")
      if(TARGET "${dep}" AND dep MATCHES "^paceline_" AND NOT dep IN_LIST found)
        list(APPEND found ${dep})
        list(APPEND queue ${dep})
      endif()
    endforeach()
  endwhile()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

set(_package ${CMAKE_INSTALL_LIBDIR}/cmake/paceline)
_paceline_parts(paceline_sdk _sdk)
_paceline_parts(paceline_mocks _mocks)
list(REMOVE_ITEM _mocks ${_sdk})

install(TARGETS ${_sdk} EXPORT paceline-sdk ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS ${_mocks} EXPORT paceline-mocks ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(part sdk mocks)
  install(EXPORT paceline-${part} FILE paceline-${part}-targets.cmake NAMESPACE paceline:: DESTINATION ${_package})
endforeach()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/libs/table/include/paceline ${CMAKE_SOURCE_DIR}/sdk/cpp/include/paceline
  ${CMAKE_SOURCE_DIR}/sdk/cpp/mocks/include/paceline
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(TARGETS paceline paceline-shard paceline-coordinator RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/paceline-config.cmake.in
  ${CMAKE_BINARY_DIR}/paceline-config.cmake INSTALL_DESTINATION ${_package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/paceline-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/paceline-config.cmake ${CMAKE_BINARY_DIR}/paceline-config-version.cmake
  DESTINATION ${_package})
