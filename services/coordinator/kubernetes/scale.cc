#include "services/coordinator/kubernetes/scale.h"

#include <curl/curl.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "libs/base/status.h"

namespace paceline::coordinator {
namespace {

constexpr long kTimeoutMs = 5'000;
// A scale has a few hundred bytes.
constexpr size_t kBodyBytesMax = 64 << 10;

size_t Keep(char* data, size_t size, size_t count, void* to) {
  auto& body = *static_cast<std::string*>(to);
  if (body.size() + size * count > kBodyBytesMax) return 0;  // libcurl ends the transfer
  body.append(data, size * count);
  return size * count;
}

absl::StatusOr<std::string> ReadToken(const std::string& account_dir) {
  const std::string path = absl::StrCat(account_dir, "/token");
  std::ifstream file(path);
  std::string token((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  absl::StripAsciiWhitespace(&token);
  if (!token.empty()) return token;
  return absl::FailedPreconditionError(
      absl::StrCat(path, " has no token: mount one into the coordinator's pod"));
}

absl::Status Unreadable(const std::string& space, const std::string& name, const std::string& why) {
  return absl::UnavailableError(
      absl::StrCat("the scale of the StatefulSet ", space, "/", name, " cannot be read: ", why));
}

}  // namespace

absl::StatusOr<KubernetesApi> ApiOfPod(const std::string& account_dir) {
  const char* host = std::getenv("KUBERNETES_SERVICE_HOST");
  const char* port = std::getenv("KUBERNETES_SERVICE_PORT");
  if (host == nullptr || port == nullptr) {
    return absl::FailedPreconditionError(
        "--statefulset: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; only a pod of "
        "Kubernetes has a StatefulSet to ask about");
  }
  const std::string name = host;
  const bool v6 = name.find(':') != std::string::npos;
  return KubernetesApi{.address = absl::StrCat("https://", v6 ? "[" : "", name, v6 ? "]" : "", ":", port),
                       .account_dir = account_dir};
}

absl::StatusOr<uint32_t> ReplicasOf(long http_status, const std::string& body, const std::string& space,
                                    const std::string& name) {
  const std::string what = absl::StrCat("the StatefulSet ", space, "/", name);
  if (http_status == 401 || http_status == 403) {
    return absl::PermissionDeniedError(absl::StrCat(
        "the Kubernetes API refuses to show the scale of ", what,
        ": give the coordinator's service account a Role with the verb get on statefulsets/scale"));
  }
  if (http_status == 404) return absl::NotFoundError(absl::StrCat(what, " does not exist"));
  if (http_status != 200) return Unreadable(space, name, absl::StrCat("HTTP status ", http_status));
  const nlohmann::json scale = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!scale.is_object()) return Unreadable(space, name, "the answer is no JSON object");
  const auto spec = scale.find("spec");
  if (spec == scale.end() || !spec->is_object()) return Unreadable(space, name, "the answer has no spec");
  // A number of 0 is left out.
  const auto replicas = spec->find("replicas");
  if (replicas == spec->end()) return 0;
  if (!replicas->is_number_unsigned() || replicas->get<uint64_t>() > 1'000'000) {
    return Unreadable(space, name, "spec.replicas is no number of pods");
  }
  return static_cast<uint32_t>(replicas->get<uint64_t>());
}

absl::StatusOr<uint32_t> ReadScale(const KubernetesApi& api, const std::string& space,
                                   const std::string& name) {
  ABSL_ASSIGN_OR_RETURN(const std::string token, ReadToken(api.account_dir));
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> call(curl_easy_init(), curl_easy_cleanup);
  if (call == nullptr) return Unreadable(space, name, "libcurl cannot be set up");
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(
      curl_slist_append(nullptr, absl::StrCat("Authorization: Bearer ", token).c_str()), curl_slist_free_all);
  const std::string url =
      absl::StrCat(api.address, "/apis/apps/v1/namespaces/", space, "/statefulsets/", name, "/scale");
  const std::string authority = absl::StrCat(api.account_dir, "/ca.crt");
  std::string body;
  char error[CURL_ERROR_SIZE] = {};
  curl_easy_setopt(call.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(call.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(call.get(), CURLOPT_CAINFO, authority.c_str());
  curl_easy_setopt(call.get(), CURLOPT_PROTOCOLS_STR, "https");
  curl_easy_setopt(call.get(), CURLOPT_PROXY, "");  // the environment's is for the outside
  curl_easy_setopt(call.get(), CURLOPT_TIMEOUT_MS, kTimeoutMs);
  curl_easy_setopt(call.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(call.get(), CURLOPT_ERRORBUFFER, error);
  curl_easy_setopt(call.get(), CURLOPT_WRITEFUNCTION, Keep);
  curl_easy_setopt(call.get(), CURLOPT_WRITEDATA, &body);
  if (const CURLcode code = curl_easy_perform(call.get()); code != CURLE_OK) {
    return Unreadable(space, name, error[0] != 0 ? error : curl_easy_strerror(code));
  }
  long http_status = 0;
  curl_easy_getinfo(call.get(), CURLINFO_RESPONSE_CODE, &http_status);
  return ReplicasOf(http_status, body, space, name);
}

}  // namespace paceline::coordinator
