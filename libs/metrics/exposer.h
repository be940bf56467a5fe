#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

// Prometheus metrics behind an interface: prometheus-cpp's headers stay inside this folder.
namespace paceline::metrics {

using Labels = std::vector<std::pair<std::string, std::string>>;

// A number that only grows. Thread-safe, one atomic addition.
class Counter {
 public:
  virtual ~Counter() = default;
  virtual void Add(double by) = 0;
};

// A number that goes up and down. Thread-safe.
class Gauge {
 public:
  virtual ~Gauge() = default;
  virtual void Add(double by) = 0;
};

// How often a quantity fell into each of fixed buckets. Thread-safe.
class Histogram {
 public:
  virtual ~Histogram() = default;
  virtual void Observe(double value) = 0;
};

// Receives numbers that are gathered while a page is scraped. Add all values of one name in sequence.
class Families {
 public:
  virtual ~Families() = default;
  virtual void Gauge(const std::string& name, const std::string& help, double value,
                     const Labels& labels = {}) = 0;
  virtual void Counter(const std::string& name, const std::string& help, double value,
                       const Labels& labels = {}) = 0;
};

// The pages of one process: /metrics, and others that are added. Besides the metrics added it shows
// process_resident_memory_bytes and process_cpu_seconds_total. Thread-safe.
class Exposer {
 public:
  // Listens on `address` (host:port; port 0 picks a free one). Every metric that is added here gets `labels`.
  // UNAVAILABLE naming the address if it is taken.
  static absl::StatusOr<std::unique_ptr<Exposer>> Start(const std::string& address,
                                                        const Labels& labels = {});
  // Stops at once; waits only for a scrape under way.
  ~Exposer();

  // host:port under which the page can be reached.
  const std::string& address() const;

  // The exposer owns the metrics; do not use them after its end. Names and units: docs/metrics.md.
  Counter& AddCounter(const std::string& name, const std::string& help, const Labels& labels = {});
  Gauge& AddGauge(const std::string& name, const std::string& help, const Labels& labels = {});
  Histogram& AddHistogram(const std::string& name, const std::string& help,
                          const std::vector<double>& buckets, const Labels& labels = {});

  // Serves the HTML that `page` returns at `path`, as /ui. It is called on the page's thread; objects that it
  // uses must outlive the exposer. What it returned is shown for `keep`, then it is called again.
  void Serve(const std::string& path, std::function<std::string()> page,
             absl::Duration keep = absl::ZeroDuration());
  // `collect` is called at every scrape, on the page's thread. Objects that it uses must outlive the exposer.
  void Collect(std::function<void(Families&)> collect);

 private:
  class Impl;
  explicit Exposer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline::metrics
