#include "examples/lib/trace.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace paceline::examples {
namespace {

using Json = nlohmann::ordered_json;

const char* NameOf(TraceSpan::What what) {
  switch (what) {
    case TraceSpan::What::kClock:
      return "clock";
    case TraceSpan::What::kRead:
      return "wait for rows";
    case TraceSpan::What::kPush:
      return "push";
    case TraceSpan::What::kTick:
      return "tick";
    case TraceSpan::What::kFinish:
      return "finish";
    case TraceSpan::What::kNextItem:
      return "wait for work";
  }
  return "";
}

double Microseconds(int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1e3;
}

}  // namespace

void TraceRecorder::Add(const TraceSpan& span) {
  if (spans_.size() == kMax) {
    ++left_out_;
  } else {
    spans_.push_back(span);
  }
}

std::string TraceJson(absl::Span<const WorkerTrace> workers) {
  int64_t begin = std::numeric_limits<int64_t>::max();
  for (const WorkerTrace& worker : workers) {
    for (const TraceSpan& span : worker.spans) begin = std::min(begin, span.began);
  }
  Json events = Json::array();
  for (const WorkerTrace& worker : workers) {
    std::string name = absl::StrCat("worker ", worker.rank);
    if (worker.left_out > 0) absl::StrAppend(&name, " (", worker.left_out, " later events left out)");
    events.push_back(
        {{"name", "thread_name"}, {"ph", "M"}, {"pid", 1}, {"tid", worker.rank}, {"args", {{"name", name}}}});
    for (const TraceSpan& span : worker.spans) {
      events.push_back({{"name", NameOf(span.what)},
                        {"cat", span.what == TraceSpan::What::kClock ? "clock" : "call"},
                        {"ph", "X"},
                        {"ts", Microseconds(span.began - begin)},
                        {"dur", Microseconds(span.ended - span.began)},
                        {"pid", 1},
                        {"tid", worker.rank},
                        {"args", {{"clock", span.clock}}}});
    }
  }
  return Json({{"displayTimeUnit", "ms"}, {"traceEvents", events}}).dump() + "\n";
}

}  // namespace paceline::examples
