#include "bench/shard_pages.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "libs/rpc/channel.h"
#include "paceline/v1/coordinator.grpc.pb.h"

namespace paceline::bench {
namespace {

int ConnectTo(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return -1;
  int fd = -1;
  for (const addrinfo* at = found; at != nullptr && fd < 0; at = at->ai_next) {
    fd = socket(at->ai_family, at->ai_socktype, at->ai_protocol);
    if (fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) != 0) {
      close(fd);
      fd = -1;
    }
  }
  freeaddrinfo(found);
  return fd;
}

// The page of metrics at host:port; empty if there is none.
std::string Scrape(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return "";
  const int fd = ConnectTo(address.substr(0, colon), address.substr(colon + 1));
  if (fd < 0) return "";
  const std::string request =
      absl::StrCat("GET /metrics HTTP/1.1\r\nHost: ", address, "\r\nConnection: close\r\n\r\n");
  std::string page;
  if (write(fd, request.data(), request.size()) == static_cast<ssize_t>(request.size())) {
    char buffer[4096];
    for (ssize_t n = 0; (n = read(fd, buffer, sizeof(buffer))) > 0;) page.append(buffer, n);
  }
  close(fd);
  return page;
}

}  // namespace

absl::StatusOr<ShardPages> ShardPages::Of(const std::string& coordinator) {
  const auto stub = v1::Coordinator::NewStub(grpc::CreateCustomChannel(
      coordinator, grpc::InsecureChannelCredentials(), rpc::ControlPlaneArguments()));
  grpc::ClientContext context;
  v1::StatusReply reply;
  const grpc::Status status = stub->Status(&context, {}, &reply);
  if (!status.ok()) {
    return absl::UnavailableError(
        absl::StrCat("bench: the coordinator at ", coordinator, ": ", status.error_message()));
  }
  ShardPages pages;
  for (const v1::ShardStatus& shard : reply.shards()) pages.addresses_.push_back(shard.metrics_address());
  return pages;
}

double ShardPages::Sum(absl::string_view metric) const {
  const std::vector<double> each = Each(metric);
  return std::accumulate(each.begin(), each.end(), 0.0);
}

std::vector<double> ShardPages::Each(absl::string_view metric) const {
  const std::string line = absl::StrCat("\n", metric, " ");
  std::vector<double> each;
  for (const std::string& address : addresses_) {
    const std::string page = Scrape(address);
    const size_t at = page.find(line);
    each.push_back(at == std::string::npos ? 0 : std::strtod(page.c_str() + at + line.size(), nullptr));
  }
  return each;
}

}  // namespace paceline::bench
