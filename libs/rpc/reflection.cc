#include "libs/rpc/reflection.h"

#include <dlfcn.h>
#include <grpcpp/version_info.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace paceline::rpc {

absl::Status ServeReflection() {
  const std::string library =
      absl::StrCat("libgrpc++_reflection.so.", GRPC_CPP_VERSION_MAJOR, ".", GRPC_CPP_VERSION_MINOR);
  if (dlopen(library.c_str(), RTLD_NOW | RTLD_NODELETE) != nullptr) return absl::OkStatus();
  const char* why = dlerror();
  return absl::FailedPreconditionError(absl::StrCat(
      "--reflection needs ", library, ", which cannot be loaded: ", why == nullptr ? "unknown" : why));
}

}  // namespace paceline::rpc
