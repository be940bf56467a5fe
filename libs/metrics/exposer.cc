#include "libs/metrics/exposer.h"

#include <civetweb.h>
#include <netdb.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"
#include "libs/base/mutex.h"
#include "libs/world/real_clock.h"

namespace paceline::metrics {
namespace {

// A counter or a gauge.
template <class Metric, class Theirs>
class Handle : public Metric {
 public:
  explicit Handle(Theirs& theirs) : theirs_(theirs) {}
  void Add(double by) override { theirs_.Increment(by); }

 private:
  Theirs& theirs_;
};

class HistogramHandle : public Histogram {
 public:
  explicit HistogramHandle(prometheus::Histogram& histogram) : histogram_(histogram) {}
  void Observe(double value) override { histogram_.Observe(value); }

 private:
  prometheus::Histogram& histogram_;
};

class Gathered : public Families {
 public:
  // `labels`: those of every metric.
  explicit Gathered(const Labels& labels) : labels_(labels) {}
  void Gauge(const std::string& name, const std::string& help, double value, const Labels& labels) override {
    Add(name, help, prometheus::MetricType::Gauge, labels).gauge.value = value;
  }
  void Counter(const std::string& name, const std::string& help, double value,
               const Labels& labels) override {
    Add(name, help, prometheus::MetricType::Counter, labels).counter.value = value;
  }

  std::vector<prometheus::MetricFamily> families;

 private:
  prometheus::ClientMetric& Add(const std::string& name, const std::string& help, prometheus::MetricType type,
                                const Labels& labels) {
    if (families.empty() || families.back().name != name) {
      families.push_back({.name = name, .help = help, .type = type, .metric = {}});
    }
    prometheus::ClientMetric& metric = families.back().metric.emplace_back();
    for (const Labels* all : {&labels_, &labels}) {
      for (const auto& [key, value] : *all) metric.label.push_back({.name = key, .value = value});
    }
    return metric;
  }

  const Labels& labels_;
};

double OpenDescriptors() {
  std::error_code error;
  std::filesystem::directory_iterator at("/proc/self/fd", error);
  double open = -1;  // of this process
  for (const std::filesystem::directory_iterator end; !error && at != end; at.increment(error)) ++open;
  return std::max(open, 0.0);
}

void AddProcess(Families& families) {
  long pages = 0;
  if (std::FILE* statm = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(statm, "%*d %ld", &pages) != 1) pages = 0;
    std::fclose(statm);
  }
  families.Gauge("process_resident_memory_bytes", "Resident memory of the process.",
                 static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE)));
  families.Gauge("process_open_fds", "Descriptors open.", OpenDescriptors());
  rlimit limit{};
  (void)getrlimit(RLIMIT_NOFILE, &limit);
  families.Gauge("process_max_fds", "Descriptors that may be open.", static_cast<double>(limit.rlim_cur));
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  families.Counter("process_cpu_seconds_total", "User and system CPU time spent.",
                   seconds(usage.ru_utime) + seconds(usage.ru_stime));
}

class Collector : public prometheus::Collectable {
 public:
  Collector(std::function<void(Families&)> collect, Labels labels)
      : collect_(std::move(collect)), labels_(std::move(labels)) {}
  std::vector<prometheus::MetricFamily> Collect() const override {
    Gathered gathered(labels_);
    collect_(gathered);
    return std::move(gathered.families);
  }

 private:
  const std::function<void(Families&)> collect_;
  const Labels labels_;
};

// Connects to `address` and hangs up.
void Knock(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.empty() ? nullptr : host.c_str(), address.c_str() + colon + 1, &hints, &found) != 0)
    return;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const int door = socket(at->ai_family, at->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, at->ai_protocol);
    if (door < 0) continue;
    (void)connect(door, at->ai_addr, at->ai_addrlen);
    close(door);
  }
  freeaddrinfo(found);
}

// A page is fetched every few seconds. Each connection has a thread while it is served. A silent connection
// is closed after kRequestTimeoutMs: otherwise it would keep all others waiting.
constexpr char kThreads[] = "8";
constexpr char kRequestTimeoutMs[] = "1000";
constexpr char kQueue[] = "64";
// The server's own limit begins anew with every byte that the reader takes. A whole reply has this time, and
// is cut off then: slow readers would have all threads otherwise.
constexpr absl::Duration kReplyTime = absl::Seconds(2);
constexpr size_t kPiece = size_t{16} << 10;

struct Page {
  std::string type;
  std::function<std::string()> body;
};

// Pages show what others have named, and are there to be read only: nothing on one is run or fetched.
constexpr char kHeaders[] =
    "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Cache-Control: no-store\r\n"
    "Connection: close\r\n\r\n";

void WriteInTime(mg_connection* connection, const std::string& body) {
  const absl::Time end = world::MonotonicNow() + kReplyTime;
  for (size_t at = 0; at < body.size() && world::MonotonicNow() < end; at += kPiece) {
    if (mg_write(connection, body.data() + at, std::min(kPiece, body.size() - at)) <= 0) return;
  }
}

// The server calls this on one of its threads; `page` is a Page. Returns the HTTP status, as it wants it.
int Answer(mg_connection* connection, void* page) {
  const std::string method = mg_get_request_info(connection)->request_method;
  if (method != "GET" && method != "HEAD") {
    mg_printf(connection, "HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, HEAD\r\nContent-Length: 0\r\n%s",
              kHeaders);
    return 405;
  }
  const Page& shown = *static_cast<const Page*>(page);
  const std::string body = shown.body();
  mg_printf(connection, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s",
            shown.type.c_str(), body.size(), kHeaders);
  if (method == "GET") WriteInTime(connection, body);
  return 200;
}

// A page, and until when it is shown as it is.
struct Kept {
  Mutex mutex;
  std::string page;
  absl::Time until = absl::InfinitePast();
};

prometheus::Labels ToMap(const Labels& labels) {
  return {labels.begin(), labels.end()};
}

}  // namespace

class Exposer::Impl {
 public:
  // What the page shows now, as Prometheus reads it.
  std::string Metrics() {
    std::vector<prometheus::MetricFamily> families = registry->Collect();
    std::vector<std::shared_ptr<Collector>> all;
    {
      MutexLock lock(&mutex);
      all = collectors;
    }
    for (const std::shared_ptr<Collector>& collector : all) {
      std::ranges::move(collector->Collect(), std::back_inserter(families));
    }
    return prometheus::TextSerializer().Serialize(families);
  }

  void Show(const std::string& path, Page page) {
    MutexLock lock(&mutex);
    mg_set_request_handler(server.get(), path.c_str(), Answer, &pages.emplace_back(std::move(page)));
  }

  std::string address;
  Labels labels;  // of every metric
  std::shared_ptr<prometheus::Registry> registry = std::make_shared<prometheus::Registry>();
  Mutex mutex;  // guards the lists below
  std::deque<Handle<Counter, prometheus::Counter>> counters;
  std::deque<Handle<Gauge, prometheus::Gauge>> gauges;
  std::deque<HistogramHandle> histograms;
  std::vector<std::shared_ptr<Collector>> collectors;
  std::deque<Page> pages;
  std::unique_ptr<mg_context, decltype(&mg_stop)> server{nullptr,
                                                         mg_stop};  // last: stops before the metrics go
};

Exposer::Exposer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Exposer::~Exposer() {
  // The page's server checks for shutdown every two seconds and at each connection: Knock makes it check now.
  Notification ended;
  std::thread knocking([&] {
    do {
      Knock(impl_->address);
    } while (!ended.WaitForNotificationWithTimeout(absl::Milliseconds(10)));
  });
  impl_->server.reset();
  ended.Notify();
  knocking.join();
}

absl::StatusOr<std::unique_ptr<Exposer>> Exposer::Start(const std::string& address, const Labels& labels) {
  auto impl = std::make_unique<Impl>();
  impl->labels = labels;
  const char* options[] = {"listening_ports",
                           address.c_str(),
                           "num_threads",
                           kThreads,
                           "request_timeout_ms",
                           kRequestTimeoutMs,
                           "enable_keep_alive",
                           "no",
                           "connection_queue",
                           kQueue,
                           nullptr};
  const mg_callbacks callbacks = {};
  mg_init_data init = {};
  init.callbacks = &callbacks;
  init.configuration_options = options;
  char why[256] = {};
  unsigned code = 0;
  mg_error_data error = {};
  error.code = &code;
  error.text = why;
  error.text_buffer_size = sizeof(why);
  impl->server.reset(mg_start2(&init, &error));
  mg_server_port port = {};
  if (impl->server == nullptr || mg_get_server_ports(impl->server.get(), 1, &port) != 1) {
    return absl::UnavailableError(
        absl::StrCat("metrics: cannot listen on ", address, " (", why, "); choose another --metrics-listen"));
  }
  impl->address = absl::StrCat(address.substr(0, address.rfind(':')), ":", port.port);
  std::unique_ptr<Exposer> out(new Exposer(std::move(impl)));
  out->Collect(AddProcess);
  out->impl_->Show("/metrics", {.type = "text/plain; charset=utf-8",
                                .body = [from = out->impl_.get()] { return from->Metrics(); }});
  return out;
}

void Exposer::Serve(const std::string& path, std::function<std::string()> page, absl::Duration keep) {
  const auto body = [kept = std::make_shared<Kept>(), page = std::move(page), keep] {
    MutexLock lock(&kept->mutex);
    if (world::MonotonicNow() >= kept->until) {
      kept->page = page();
      kept->until = world::MonotonicNow() + keep;
    }
    return kept->page;
  };
  impl_->Show(path, {.type = "text/html; charset=utf-8", .body = body});
}

const std::string& Exposer::address() const {
  return impl_->address;
}

Counter& Exposer::AddCounter(const std::string& name, const std::string& help, const Labels& labels) {
  MutexLock lock(&impl_->mutex);
  return impl_->counters.emplace_back(prometheus::BuildCounter()
                                          .Name(name)
                                          .Help(help)
                                          .Labels(ToMap(impl_->labels))
                                          .Register(*impl_->registry)
                                          .Add(ToMap(labels)));
}

Gauge& Exposer::AddGauge(const std::string& name, const std::string& help, const Labels& labels) {
  MutexLock lock(&impl_->mutex);
  return impl_->gauges.emplace_back(prometheus::BuildGauge()
                                        .Name(name)
                                        .Help(help)
                                        .Labels(ToMap(impl_->labels))
                                        .Register(*impl_->registry)
                                        .Add(ToMap(labels)));
}

Histogram& Exposer::AddHistogram(const std::string& name, const std::string& help,
                                 const std::vector<double>& buckets, const Labels& labels) {
  MutexLock lock(&impl_->mutex);
  return impl_->histograms.emplace_back(prometheus::BuildHistogram()
                                            .Name(name)
                                            .Help(help)
                                            .Labels(ToMap(impl_->labels))
                                            .Register(*impl_->registry)
                                            .Add(ToMap(labels), buckets));
}

void Exposer::Collect(std::function<void(Families&)> collect) {
  MutexLock lock(&impl_->mutex);
  impl_->collectors.push_back(std::make_shared<Collector>(std::move(collect), impl_->labels));
}

}  // namespace paceline::metrics
