#include "services/coordinator/status_page.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace paceline::coordinator {
namespace {

// A page is for reading; beyond so many rows of a table the rest is counted.
constexpr size_t kRowsMax = 500;

constexpr absl::string_view kStyle =
    "body{font:14px system-ui,sans-serif;margin:1.5em;color:#222;background:#fff}"
    "table{border-collapse:collapse;margin:.3em 0 1.2em}"
    "th,td{padding:.25em .8em;border-bottom:1px solid #ddd;text-align:left}"
    "td.n{text-align:right;font-variant-numeric:tabular-nums}"
    ".bad{color:#b00020;font-weight:600}.well{color:#1b7a3d}.dim{color:#666}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#16181c}th,td{border-color:#333}"
    ".bad{color:#ff6b7a}.well{color:#5fcf8a}.dim{color:#999}}";

std::string HtmlEscaped(absl::string_view text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

struct Cell {
  std::string text;
  const char* kind = "";  // class of the element
};

Cell Number(uint64_t number) {
  return {.text = absl::StrCat(number), .kind = "n"};
}

Cell Bytes(uint64_t bytes) {
  return {.text = absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / (1 << 20)), .kind = "n"};
}

Cell Share(uint64_t part, uint64_t of) {
  if (of == 0) return {.text = "", .kind = "n"};
  const double percent = 100.0 * static_cast<double>(part) / static_cast<double>(of);
  return {.text = absl::StrFormat("%.0f %%", percent), .kind = percent >= 85 ? "n bad" : "n"};
}

std::string InSeconds(uint64_t ms) {
  return absl::StrFormat("%.1f s", static_cast<double>(ms) / 1000);
}

std::string TableOf(absl::string_view title, const std::vector<std::string>& heads,
                    const std::vector<std::vector<Cell>>& rows) {
  std::string html = absl::StrCat("<h2>", HtmlEscaped(title), "</h2>\n");
  if (rows.empty()) return html + "<p class=\"dim\">none</p>\n";
  html += "<table><tr>";
  for (const std::string& head : heads) absl::StrAppend(&html, "<th>", HtmlEscaped(head), "</th>");
  html += "</tr>\n";
  for (size_t i = 0; i < std::min(rows.size(), kRowsMax); ++i) {
    html += "<tr>";
    for (const Cell& cell : rows[i]) {
      absl::StrAppend(&html, "<td class=\"", cell.kind, "\">", HtmlEscaped(cell.text), "</td>");
    }
    html += "</tr>\n";
  }
  html += "</table>\n";
  if (rows.size() > kRowsMax) {
    absl::StrAppend(&html, "<p class=\"dim\">and ", rows.size() - kRowsMax, " more</p>\n");
  }
  return html;
}

std::string ProblemList(const v1::StatusReply& status) {
  if (status.problems().empty()) return "<p class=\"well\">No problems</p>\n";
  std::string html = "<ul>\n";
  for (const std::string& problem : status.problems()) {
    absl::StrAppend(&html, "<li class=\"bad\">", HtmlEscaped(problem), "</li>\n");
  }
  return html + "</ul>\n";
}

Cell StateCell(const v1::ShardStatus& shard) {
  if (!shard.alive())
    return {.text = absl::StrCat("silent for ", InSeconds(shard.silent_ms())), .kind = "bad"};
  if (!shard.has_drain()) return {.text = "alive", .kind = "well"};
  return {.text = shard.drain().may_go()
                      ? "drained: may go"
                      : absl::StrCat("drains: ", shard.drain().segments_left(), " segments left")};
}

// By name, shard-2 before shard-10.
std::vector<std::vector<Cell>> ShardRows(const v1::StatusReply& status) {
  std::vector<const v1::ShardStatus*> sorted;
  for (const v1::ShardStatus& shard : status.shards()) sorted.push_back(&shard);
  std::ranges::sort(sorted, {}, [](const v1::ShardStatus* shard) {
    return std::pair(shard->info().name().size(), shard->info().name());
  });
  std::vector<std::vector<Cell>> rows;
  for (const v1::ShardStatus* shard : sorted) {
    const v1::BeatRequest& last = shard->last();
    rows.push_back({{shard->info().name()},
                    StateCell(*shard),
                    Number(shard->primaries()),
                    Number(shard->replicas()),
                    Number(shard->learners()),
                    Number(last.rows()),
                    Bytes(last.bytes()),
                    Share(last.bytes(), last.bytes_budget()),
                    Number(shard->load().pushed_per_s() + shard->load().read_per_s())});
  }
  return rows;
}

std::vector<std::vector<Cell>> JobRows(const v1::StatusReply& status) {
  std::vector<std::vector<Cell>> rows;
  for (const v1::JobStatus& job : status.jobs()) {
    const auto at_work = std::ranges::count_if(
        job.sessions(), [](const v1::SessionStatus& session) { return session.state() == "worker"; });
    rows.push_back({{job.name()},
                    Number(job.min_clock()),
                    Number(static_cast<uint64_t>(at_work)),
                    Number(job.rows()),
                    Bytes(job.bytes()),
                    {job.deleting() ? "is being deleted" : ""},
                    {.text = job.data_lost(), .kind = "bad"}});
  }
  return rows;
}

// How many clocks a worker is behind the fastest of its job, where a shard has told both at one time: of each
// job it tells the slowest and the newest. Two shards' clocks, or two clients', are of two times, and differ
// by more than the job's bound.
std::optional<uint64_t> Behind(const v1::StatusReply& status, uint32_t job, uint64_t session) {
  std::optional<uint64_t> behind;
  for (const v1::ShardStatus& shard : status.shards()) {
    std::optional<uint64_t> own;
    uint64_t fastest = 0;
    for (const v1::WorkerClock& worker : shard.last().workers()) {
      if (worker.job() != job) continue;
      fastest = std::max(fastest, worker.clock());
      if (worker.session() == session) own = worker.clock();
    }
    if (own.has_value()) behind = std::max(behind.value_or(0), fastest - *own);
  }
  return behind;
}

std::vector<std::vector<Cell>> ClientRows(const v1::StatusReply& status) {
  std::vector<std::vector<Cell>> rows;
  for (const v1::JobStatus& job : status.jobs()) {
    for (const v1::SessionStatus& session : job.sessions()) {
      const std::optional<uint64_t> behind = Behind(status, job.job(), session.session());
      const bool works = session.state() == "worker";
      rows.push_back(
          {{job.name()},
           works ? Number(session.rank()) : Cell(),
           {session.state()},
           Number(session.clock()),
           works && behind.has_value() ? Number(*behind) : Cell(),
           {.text = InSeconds(session.silent_ms()), .kind = session.silent_ms() > 3000 ? "n bad" : "n"},
           {session.client()}});
    }
  }
  return rows;
}

std::string ClusterPart(const v1::StatusReply& status) {
  if (status.standby()) {
    return absl::StrCat("<p>This coordinator stands by. ",
                        status.leader().empty() ? "Nobody is known to lead." : "The one that leads: ",
                        HtmlEscaped(status.leader()), "</p>\n");
  }
  std::string html =
      absl::StrCat("<p class=\"dim\">map version ", status.map_version(), ", ", status.segments(),
                   " segments, ", status.segments_under_replicated(), " with copies missing");
  if (status.has_moves()) {
    absl::StrAppend(&html, "; ", status.moves().copies(), " are being copied, ", status.moves().copies_left(),
                    " wait");
  }
  html += "</p>\n";
  html += TableOf(
      "Shards",
      {"shard", "state", "primaries", "replicas", "learners", "rows", "memory", "of budget", "rows/s"},
      ShardRows(status));
  html += TableOf("Jobs", {"job", "min clock", "workers", "rows", "memory", "", ""}, JobRows(status));
  html += TableOf("Clients", {"job", "rank", "state", "clock", "behind", "silent for", "client"},
                  ClientRows(status));
  return html;
}

}  // namespace

std::string StatusPage(const v1::StatusReply& status, absl::string_view cluster) {
  const std::string title = cluster.empty() ? "Paceline" : absl::StrCat("Paceline: ", HtmlEscaped(cluster));
  return absl::StrCat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" "
      "content=\"2\">"
      "<title>",
      title, "</title><style>", kStyle, "</style></head><body>\n<h1>", title, "</h1>\n", ProblemList(status),
      ClusterPart(status), "<p class=\"dim\">version ", HtmlEscaped(status.version()), ", coordinator ",
      HtmlEscaped(status.coordinator()), ". <a href=\"/metrics\">metrics</a></p>\n</body></html>\n");
}

}  // namespace paceline::coordinator
