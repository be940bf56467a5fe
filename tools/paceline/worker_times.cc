#include "tools/paceline/worker_times.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>

#include "tools/paceline/lists.h"

namespace paceline::tool {
namespace {

// Combines each number of a message with the other message's.
template <class Combine>
void EachNumber(google::protobuf::Message& to, const google::protobuf::Message& other, Combine combine) {
  const auto& fields = *to.GetDescriptor();
  const auto& reflection = *to.GetReflection();
  for (int i = 0; i < fields.field_count(); ++i) {
    const auto* field = fields.field(i);
    if (field->is_repeated()) continue;
    if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_UINT64) {
      reflection.SetUInt64(&to, field,
                           combine(reflection.GetUInt64(to, field), reflection.GetUInt64(other, field)));
    } else if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
      EachNumber(*reflection.MutableMessage(&to, field), reflection.GetMessage(other, field), combine);
    }
  }
}

uint64_t Less(uint64_t now, uint64_t then) {
  return now - std::min(now, then);
}

// Of each entry of a list what has been added since the entry with the same name.
template <class Entries, class NameOf>
void EachSince(Entries& now, const Entries& then, NameOf name_of) {
  for (auto& entry : now) {
    const auto it =
        std::ranges::find_if(then, [&](const auto& one) { return name_of(one) == name_of(entry); });
    if (it != then.end()) EachNumber(entry, *it, Less);
  }
}

}  // namespace

std::vector<std::pair<const char*, uint64_t>> CausesOf(const v1::WaitCauses& causes) {
  return {{"staleness", causes.staleness_us()},
          {"network", causes.network_us()},
          {"queue", causes.queue_us()},
          {"apply", causes.apply_us()},
          {"replication", causes.replication_us()},
          {"back_pressure", causes.back_pressure_us()},
          {"route", causes.route_us()},
          {"work", causes.work_us()},
          {"coordinator", causes.coordinator_us()},
          {"value_bound", causes.value_bound_us()}};
}

void AddTo(v1::WorkerTime& sum, const v1::WorkerTime& time) {
  EachNumber(sum, time, [](uint64_t a, uint64_t b) { return a + b; });
  sum.set_threads(sum.threads() + time.threads());
}

v1::WorkerTime Since(const v1::WorkerTime& now, const v1::WorkerTime& then) {
  v1::WorkerTime since = now;
  EachNumber(since, then, Less);
  EachSince(*since.mutable_for_workers(), then.for_workers(), [](const auto& one) { return one.rank(); });
  EachSince(*since.mutable_at_shards(), then.at_shards(), [](const auto& one) { return one.shard(); });
  EachSince(*since.mutable_of_tables(), then.of_tables(), [](const auto& one) { return one.name(); });
  return since;
}

const v1::WorkerTime* TimeOf(const v1::StatusReply& status, const std::string& job, uint64_t session) {
  const v1::JobStatus* found = FindJob(status, job);
  if (found == nullptr) return nullptr;
  for (const v1::SessionStatus& one : found->sessions()) {
    if (one.session() == session && one.has_time()) return &one.time();
  }
  return nullptr;
}

}  // namespace paceline::tool
