# Everything borrowed, from Debian 12's packages. The order matters to gRPC's config file.

find_package(Threads REQUIRED)
find_package(Protobuf 3.21 REQUIRED)  # CMake's own module: Debian ships no protobuf config file
find_package(absl CONFIG REQUIRED)
find_package(OpenSSL 3.0 REQUIRED COMPONENTS Crypto)
find_package(gRPC 1.51 CONFIG REQUIRED)
find_package(RocksDB 7.8 CONFIG REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
find_package(civetweb 1.15 CONFIG REQUIRED)  # serves the metrics page
find_package(spdlog CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(CURL 7.88 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(LIBZIP REQUIRED IMPORTED_TARGET libzip>=1.7)  # its config file asks for programs that are not needed
pkg_check_modules(LZ4 REQUIRED IMPORTED_TARGET liblz4>=1.9)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd>=1.5)
find_package(GTest 1.12 CONFIG REQUIRED)
find_package(benchmark 1.7 CONFIG REQUIRED)
