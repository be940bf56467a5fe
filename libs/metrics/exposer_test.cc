#include "libs/metrics/exposer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/mutex.h"
#include "libs/base/test_util/status_matchers.h"

namespace paceline::metrics {
namespace {

using paceline::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

int Connect(const std::string& address, int receive_buffer = 0) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (receive_buffer > 0) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  return fd;
}

// The page as Prometheus gets it.
std::string Scrape(const std::string& address, const std::string& what = "GET /metrics") {
  const int fd = Connect(address);
  const std::string request = what + " HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
  EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string page;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(fd, buffer, sizeof(buffer))) > 0;) page.append(buffer, n);
  close(fd);
  return page;
}

class ExposerTest : public ::testing::Test {
 protected:
  std::unique_ptr<Exposer> exposer = Exposer::Start("127.0.0.1:0").value();
};

TEST_F(ExposerTest, ShowsMetricsWithTypeHelpAndLabels) {
  exposer->AddCounter("work_total", "Work done.", {{"kind", "a"}}).Add(2);
  exposer->AddCounter("work_total", "Work done.", {{"kind", "b"}}).Add(3);
  exposer->AddGauge("level", "How high.").Add(-1);
  Histogram& histogram = exposer->AddHistogram("size", "How large.", {1, 10});
  for (const double size : {0.5, 5.0, 50.0}) histogram.Observe(size);
  exposer->AddHistogram("weight", "How heavy.", {1}, {{"kind", "a"}}).Observe(0.5);
  EXPECT_THAT(Scrape(exposer->address()),
              AllOf(HasSubstr("# HELP work_total Work done.\n# TYPE work_total counter\n"),
                    HasSubstr("work_total{kind=\"a\"} 2\n"), HasSubstr("work_total{kind=\"b\"} 3\n"),
                    HasSubstr("# TYPE level gauge\nlevel -1\n"), HasSubstr("size_bucket{le=\"1\"} 1\n"),
                    HasSubstr("size_bucket{le=\"10\"} 2\n"), HasSubstr("size_bucket{le=\"+Inf\"} 3\n"),
                    HasSubstr("size_count 3\n"), HasSubstr("weight_count{kind=\"a\"} 1\n")));
}

TEST_F(ExposerTest, GathersAtEachScrape) {
  int scrapes = 0;
  exposer->Collect([&scrapes](Families& families) {
    ++scrapes;
    families.Gauge("now", "Now.", scrapes, {{"which", "one"}});
    families.Gauge("now", "Now.", 10.0 * scrapes, {{"which", "two"}});
    families.Counter("so_far_total", "So far.", scrapes);
  });
  EXPECT_THAT(Scrape(exposer->address()),
              AllOf(HasSubstr("now{which=\"one\"} 1\n"), HasSubstr("so_far_total 1\n")));
  const std::string page = Scrape(exposer->address());
  EXPECT_THAT(page, AllOf(HasSubstr("now{which=\"two\"} 20\n"), Not(HasSubstr("so_far_total 1\n"))));
  EXPECT_EQ(page.find("# TYPE now gauge"), page.rfind("# TYPE now gauge")) << "one family of one name";
}

TEST(ExposerLabelsTest, EveryMetricHasThoseOfThePage) {
  const std::unique_ptr<Exposer> exposer =
      Exposer::Start("127.0.0.1:0", {{"cluster", "ml"}, {"shard", "shard-1"}}).value();
  exposer->AddCounter("work_total", "Work done.", {{"kind", "a"}}).Add(2);
  exposer->AddGauge("level", "How high.").Add(1);
  exposer->AddHistogram("size", "How large.", {1}).Observe(5);
  exposer->Collect([](Families& families) {
    families.Gauge("now", "Now.", 1, {{"which", "one"}});
    families.Counter("so_far_total", "So far.", 1);
  });
  const std::string labels = "cluster=\"ml\",shard=\"shard-1\"";
  const std::string page = Scrape(exposer->address());
  for (const char* metric : {"work_total", "level", "size_count", "size_bucket", "now", "so_far_total",
                             "process_resident_memory_bytes", "process_cpu_seconds_total"}) {
    EXPECT_THAT(page, HasSubstr("\n" + std::string(metric) + "{" + labels)) << metric;
  }
}

TEST_F(ExposerTest, ShowsTheProcess) {
  EXPECT_THAT(Scrape(exposer->address()),
              AllOf(HasSubstr("# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes "),
                    Not(HasSubstr("process_resident_memory_bytes 0\n")),
                    HasSubstr("# TYPE process_open_fds gauge\nprocess_open_fds "),
                    Not(HasSubstr("process_open_fds 0\n")),
                    HasSubstr("# TYPE process_max_fds gauge\nprocess_max_fds "),
                    HasSubstr("# TYPE process_cpu_seconds_total counter\n")));
}

// More of them than there are threads. The time limit of this test is far less than they might last
// otherwise.
TEST_F(ExposerTest, ASilentConnectionHoldsUpNoOther) {
  std::vector<int> idle;
  for (int i = 0; i < 20; ++i) idle.push_back(Connect(exposer->address()));
  EXPECT_THAT(Scrape(exposer->address()), HasSubstr("process_cpu_seconds_total "));
  for (const int fd : idle) close(fd);
}

// Each of them takes a little all the time, for as long as the scrape waits; there are more than threads.
TEST_F(ExposerTest, SlowReadersHoldUpNoOther) {
  exposer->Serve(
      "/large", [] { return std::string(size_t{16} << 20, 'x'); }, absl::InfiniteDuration());
  Notification scraped;
  std::vector<std::thread> readers;
  for (int i = 0; i < 16; ++i) {
    readers.emplace_back([&] {
      const int fd = Connect(exposer->address(), /*receive_buffer=*/4096);
      const std::string request = "GET /large HTTP/1.1\r\nHost: test\r\n\r\n";
      EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
      char buffer[1024];
      while (!scraped.WaitForNotificationWithTimeout(absl::Milliseconds(20)) &&
             read(fd, buffer, sizeof(buffer)) > 0) {
      }
      close(fd);
    });
  }
  EXPECT_THAT(Scrape(exposer->address()), HasSubstr("process_cpu_seconds_total "));
  scraped.Notify();
  for (std::thread& reader : readers) reader.join();
}

TEST_F(ExposerTest, APageIsKeptForAWhile) {
  int times = 0;
  exposer->Serve(
      "/ui", [&times] { return "<p>" + std::to_string(++times) + "</p>"; }, absl::Hours(1));
  EXPECT_THAT(Scrape(exposer->address(), "GET /ui"), HasSubstr("<p>1</p>"));
  EXPECT_THAT(Scrape(exposer->address(), "GET /ui"), HasSubstr("<p>1</p>"));
}

TEST_F(ExposerTest, ServesOtherPagesBesideTheMetrics) {
  int times = 0;
  exposer->Serve("/ui", [&times] { return "<p>" + std::to_string(++times) + "</p>"; });
  EXPECT_THAT(Scrape(exposer->address(), "GET /ui"),
              AllOf(HasSubstr("200 OK"), HasSubstr("text/html"), HasSubstr("default-src 'none'"),
                    HasSubstr("Content-Length: 8\r\n"), HasSubstr("\r\n\r\n<p>1</p>")));
  EXPECT_THAT(Scrape(exposer->address(), "GET /ui"), HasSubstr("<p>2</p>"));
  EXPECT_THAT(Scrape(exposer->address(), "HEAD /ui"), Not(HasSubstr("<p>")));
  EXPECT_THAT(Scrape(exposer->address(), "DELETE /ui"), HasSubstr(" 405 "));
  EXPECT_THAT(Scrape(exposer->address(), "GET /other"), HasSubstr(" 404 "));
  EXPECT_THAT(Scrape(exposer->address()), HasSubstr("process_open_fds "));
}

TEST_F(ExposerTest, AnAddressThatIsTakenIsNamed) {
  EXPECT_THAT(Exposer::Start(exposer->address()),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr(exposer->address()), HasSubstr("--metrics-listen"))));
}

}  // namespace
}  // namespace paceline::metrics
