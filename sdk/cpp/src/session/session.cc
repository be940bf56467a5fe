#include "sdk/cpp/src/session/session.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/feature_level.h"
#include "libs/base/status.h"
#include "libs/wire/compact_map.h"
#include "libs/wire/map_codec.h"
#include "libs/wire/schema_codec.h"
#include "sdk/cpp/src/push/filter/check.h"
#include "sdk/cpp/src/session/promise.h"

namespace paceline::sdk {
namespace {

constexpr Clock kBoundMost = UINT16_MAX;
constexpr absl::Duration kKeepAliveForBounds = absl::Milliseconds(250);
// The first change of such a bound is the largest, and a job waits for it.
constexpr absl::Duration kFirstKeepAlivesForBounds = absl::Milliseconds(100);
constexpr uint32_t kFirstKeepAlives = 20;

// The coordinator no longer knows the session.
bool MeansOver(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsAborted(status) || absl::IsFailedPrecondition(status) ||
         absl::IsPermissionDenied(status);
}

}  // namespace

Session::Session(Context& context, CoordinatorApi& api, Options options, OnMap on_map)
    : context_(context),
      api_(api),
      options_(std::move(options)),
      on_map_(std::move(on_map)),
      watch_backoff_(options_.backoff) {
  context_.backoff = options_.backoff;
  context_.shares_from = options_.shares_from;
}

absl::Status Session::Over(absl::string_view why) const {
  return absl::AbortedError(absl::StrCat("session ", context_.session.v, " of job '", context_.job_name,
                                         "' is over: coordinator at ", options_.coordinator, ": ", why,
                                         "; connect again"));
}

absl::Status Session::Judge(const absl::Status& status) {
  if (!absl::IsFailedPrecondition(status)) return status;
  context_.fail(Over(status.message()));
  return context_.failure;
}

// -- opening --

void Session::Open(Done done) {
  opened_ = std::move(done);
  context_.client_name = options_.client_name;
  context_.job_name = options_.job;
  v1::OpenSessionRequest request;
  request.set_feature_level(kFeatureLevel);
  request.set_job(options_.job);
  request.set_client(options_.client_name);
  request.set_nonce(context_.random.Next());
  request.set_takes_compact_map(true);
  Ask(&CoordinatorApi::OpenSession, "open session", context_.Now() + options_.timeout, std::move(request),
      [this](absl::StatusOr<v1::OpenSessionReply> reply) { OnOpened(std::move(reply)); });
}

void Session::OnOpened(absl::StatusOr<v1::OpenSessionReply> reply) {
  if (!reply.ok()) return EndOpen(reply.status());
  if (absl::Status expanded = ExpandMap(*reply); !expanded.ok()) return EndOpen(expanded);
  context_.job = JobId(reply->job());
  context_.session = SessionId(reply->session());
  if (!reply->secret().empty()) context_.token = reply->secret();
  context_.data_lost = reply->data_lost();
  context_.catalogue_version = CatalogueVersion(reply->catalogue().version());
  context_.cluster = reply->map().cluster();
  if (absl::Status taken = TakeMap(reply->map()); !taken.ok()) return EndOpen(taken);
  if (reply->created_job() && context_.notice) {
    context_.notice(
        "it did not exist and was created; `paceline job list` shows all jobs, if you meant another one");
  }
  if (reply->keep_alive_ms() > 0) keep_alive_ = absl::Milliseconds(reply->keep_alive_ms());
  KeepAliveAfter(keep_alive_);
  StartWatch();
  if (options_.workers == 0) return EndOpen(absl::OkStatus());
  Join();
}

absl::Status Session::ExpandMap(v1::OpenSessionReply& reply) const {
  if (reply.compact_map().empty()) return absl::OkStatus();
  v1::CompactMap compact;
  const bool parsed = compact.ParseFromString(reply.compact_map());
  absl::StatusOr<v1::Map> map =
      parsed ? wire::Expand(compact) : absl::InvalidArgumentError("compact map: its bytes are none");
  if (!map.ok()) {
    return absl::InternalError(absl::StrCat("coordinator at ", options_.coordinator,
                                            ": sent a map that breaks its rules: ", map.status().message()));
  }
  *reply.mutable_map() = *std::move(map);
  reply.clear_compact_map();
  return absl::OkStatus();
}

void Session::Join() {
  auto request = InSession<v1::JoinJobRequest>();
  request.set_workers(options_.workers);
  if (options_.rank.has_value()) request.set_rank_plus_one(*options_.rank + 1);
  Ask(&CoordinatorApi::JoinJob, "join", context_.Now() + std::max(options_.timeout, options_.start_timeout),
      std::move(request), [this](absl::StatusOr<v1::JoinJobReply> reply) { OnJoined(std::move(reply)); });
}

void Session::OnJoined(absl::StatusOr<v1::JoinJobReply> reply) {
  if (!reply.ok()) return EndOpen(reply.status());
  context_.worker = true;
  context_.start_clock = context_.worker_clock = reply->start_clock();
  context_.rank = reply->rank();
  EndOpen(absl::OkStatus());
}

void Session::EndOpen(absl::Status status) {
  if (status.ok()) {
    context_.history.Record(history::SessionOpened{.job = context_.job,
                                                   .session = context_.session,
                                                   .worker = context_.worker,
                                                   .rank = context_.rank,
                                                   .start = context_.start_clock});
  }
  context_.deferred.Tell(std::move(opened_), std::move(status));
}

// -- signs of life --

void Session::KeepAliveAfter(absl::Duration pause) {
  context_.timers.Cancel(keep_alive_timer_);
  keep_alive_timer_ = context_.timers.At(context_.Now() + pause, [this] { SendKeepAlive(); });
}

void Session::SendKeepAlive() {
  if (stopped_) return;
  auto request = InSession<v1::KeepAliveRequest>();
  request.set_clock(context_.worker_clock);
  if (context_.loss.has_value()) request.set_loss(*context_.loss);
  request.set_rows_from_cache(context_.stats.rows_from_cache);
  request.set_rows_pulled(context_.stats.rows_pulled);
  request.set_told_version(told_version_);
  if (context_.worker) {
    v1::WorkerTime& time = *request.mutable_time();
    time = context_.times->Report();
    for (v1::WorkerTime::OfTable& of : *time.mutable_of_tables()) {
      const std::optional<Clock> bound = context_.changes.BoundOf(of.name(), context_.worker_clock);
      if (bound.has_value()) of.set_bound(static_cast<uint32_t>(*bound));
    }
  }
  // Long enough for a change of coordinators; the next keep-alive is not sent before.
  const absl::Duration timeout = 2 * keep_alive_;
  context_.deferred.Run([this, &api = api_, request, timeout, gate = context_.gate] {
    const auto kept = [this, gate,
                       stated = request.told_version()](absl::StatusOr<v1::KeepAliveReply> reply) {
      gate->Enter([&] { OnKeptAlive(std::move(reply), stated); });
    };
    api.KeepAlive(request, timeout, kept);
  });
}

void Session::OnKeptAlive(absl::StatusOr<v1::KeepAliveReply> reply, uint64_t stated) {
  if (stopped_) return;
  if (MeansOver(reply.status())) {
    return context_.fail(Over(reply.status().message()));
  }
  if (absl::IsDataLoss(reply.status())) return context_.fail(reply.status());
  if (reply.ok() && MapVersion(reply->map_version()) > context_.routes->map.version()) {
    WantMap(MapVersion(reply->map_version()));
  }
  if (reply.ok()) {
    // It has what changed since `stated`: if less is known by now, that is still to be told.
    if (told_version_ >= stated) told_version_ = std::max(told_version_, reply->catalogue_version());
    for (const v1::Table& table : reply->changed()) {
      context_.changes.Told(table, context_.worker, context_.worker_clock);
    }
  }
  if (!reply.ok()) return KeepAliveAfter(keep_alive_ / 4);  // before the session timeout runs out
  const bool first = first_keep_alives_ > 0;
  if (first) --first_keep_alives_;
  KeepAliveAfter(first ? kFirstKeepAlivesForBounds : keep_alive_);
}

// -- the map --

void Session::StartWatch() {
  if (stopped_) return;
  watching_ = true;
  const uint64_t number = ++watches_;
  const uint64_t known = context_.routes->map.version().v;
  context_.deferred.Run([this, &api = api_, gate = context_.gate, number, known] {
    std::shared_ptr<CoordinatorApi::Watch> watch = api.WatchMap(
        known,
        [this, gate, number](v1::Map map) {
          gate->Enter([&] {
            if (number != watches_) return;
            // The next stream begins with the version that is known here.
            if (!wire::Follows(map, context_.routes->map.version())) {
              ++watches_;
              return OnWatchEnded();
            }
            watch_backoff_.Reset();
            if (absl::Status taken = TakeMap(map); !taken.ok()) context_.fail(taken);
          });
        },
        [this, gate, number](absl::Status) {
          gate->Enter([&] {
            if (number == watches_) OnWatchEnded();
          });
        });
    gate->Enter([&] {
      if (number == watches_ && !stopped_) watch_ = std::move(watch);
    });
  });
}

void Session::OnWatchEnded() {
  watching_ = false;
  context_.deferred.Run([watch = std::move(watch_)] {});
  if (stopped_) return;
  watch_timer_ = context_.timers.At(context_.Now() + watch_backoff_.Next(context_.random.Next()),
                                    [this] { StartWatch(); });
}

void Session::WantMap(MapVersion version) {
  // The watch will bring it, if there is one; otherwise one must be started now.
  if (watching_ || stopped_ || version <= context_.routes->map.version()) return;
  context_.timers.Cancel(watch_timer_);
  StartWatch();
}

absl::Status Session::TakeMap(const v1::Map& proto) {
  if (proto.cluster() != 0 && context_.cluster != 0 && proto.cluster() != context_.cluster) {
    return absl::InternalError(absl::StrCat("coordinator at ", options_.coordinator,
                                            ": sent a map of cluster ", proto.cluster(), "; session ",
                                            context_.session.v, " is of cluster ", context_.cluster));
  }
  if (context_.routes != nullptr && MapVersion(proto.version()) <= context_.routes->map.version()) {
    return absl::OkStatus();
  }
  absl::StatusOr<ring::SegmentMap> map =
      wire::NextMap(proto, context_.routes == nullptr ? nullptr : &context_.routes->map);
  if (!map.ok()) {
    return absl::InternalError(absl::StrCat("coordinator at ", options_.coordinator,
                                            ": sent a map that breaks its rules: ", map.status().message()));
  }
  if (context_.routes != nullptr && map->ring_bits() != context_.routes->map.ring_bits()) {
    return absl::InternalError(absl::StrCat("coordinator at ", options_.coordinator, ": the ring has 2^",
                                            map->ring_bits(), " segments, before it had 2^",
                                            context_.routes->map.ring_bits(), ": this is another cluster"));
  }
  on_map_(Routes::Of(*std::move(map), context_.slice_bytes / 2));
  return absl::OkStatus();
}

// -- tables --

void Session::OpenTable(std::string name, const v1::TableSchema* schema, Consistency consistency,
                        const PushFilter& push_filter, const filter::LinkFilters& link_filters,
                        TableCallback done) {
  auto request = InSession<v1::OpenTableRequest>();
  request.set_name(name);
  if (schema != nullptr) {
    *request.mutable_schema() = *schema;
    request.set_create(true);
  }
  const Promise promise = PromiseOf(consistency);
  if (promise.adaptive)
    request.set_bound_max(static_cast<uint32_t>(std::min(*promise.staleness, kBoundMost)));
  if (push_filter.active()) request.set_holds_back(true);
  Ask(&CoordinatorApi::OpenTable, absl::StrCat("open table '", name, "'"), context_.Now() + options_.timeout,
      std::move(request),
      [this, consistency, push_filter, link_filters,
       done = std::move(done)](absl::StatusOr<v1::OpenTableReply> reply) mutable {
        absl::StatusOr<std::shared_ptr<const TableInfo>> table =
            reply.ok() ? TakeTable(*reply, consistency, push_filter, link_filters) : Judge(reply.status());
        if (table.ok()) context_.history.TableOpened(**table);
        context_.deferred.Tell(std::move(done), std::move(table));
      });
}

absl::Status Session::CheckValueBound(const Consistency& consistency, const table::Schema& schema) const {
  const std::optional<double> bound = PromiseOf(consistency).value_bound;
  if (!bound.has_value()) return absl::OkStatus();
  if (!(*bound > 0) || !std::isfinite(*bound)) {
    return absl::InvalidArgumentError(absl::StrCat("Vap: v: ", *bound, "; expected a number above 0"));
  }
  if (schema.aggregated) {
    return absl::FailedPreconditionError(
        "Vap needs a table that is applied on arrival, and this one is aggregated: its updates are seen only "
        "after this worker's own next tick; use Bsp or Ssp");
  }
  constexpr uint32_t kLevel = 2;
  if (context_.routes->map.feature_level() >= kLevel) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("Vap needs shards of feature level ", kLevel,
                                               ", and not all are; upgrade them, or use Ssp"));
}

absl::Status Session::CheckHeldBack(const PushFilter& push_filter, const Consistency& consistency,
                                    const v1::Table& table, const table::Schema& schema) const {
  if (!push_filter.active()) return absl::OkStatus();
  ABSL_RETURN_IF_ERROR(CheckPushFilter(push_filter, consistency, schema));
  constexpr uint32_t kLevel = 2;
  if (context_.routes->map.feature_level() >= kLevel && table.holds_back()) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("a filter needs a coordinator and shards of feature level ", kLevel,
                   ", so that snapshots say what they do not hold, and not all are; upgrade them, or push "
                   "without a filter"));
}

absl::StatusOr<std::shared_ptr<const TableInfo>> Session::TakeTable(const v1::OpenTableReply& reply,
                                                                    const Consistency& consistency,
                                                                    const PushFilter& push_filter,
                                                                    const filter::LinkFilters& link_filters) {
  context_.catalogue_version =
      std::max(context_.catalogue_version, CatalogueVersion(reply.catalogue_version()));
  const v1::Table& table = reply.table();
  ABSL_ASSIGN_OR_RETURN(const table::Schema schema, wire::SchemaFromProto(table.schema()));
  if (const Promise promise = PromiseOf(consistency); promise.exact && !schema.aggregated) {
    return absl::FailedPreconditionError(
        absl::StrCat("table '", table.name(), "': consistency: ", promise.name,
                     " needs an aggregated table, and this one is applied on arrival; use "
                     "Ssp{.staleness = 0}, or create the table with `aggregated`"));
  }
  if (absl::Status fits = CheckValueBound(consistency, schema); !fits.ok()) {
    return absl::Status(fits.code(),
                        absl::StrCat("table '", table.name(), "': consistency: ", fits.message()));
  }
  if (absl::Status fits = CheckHeldBack(push_filter, consistency, table, schema); !fits.ok()) {
    return absl::Status(fits.code(),
                        absl::StrCat("table '", table.name(), "': push_filter: ", fits.message()));
  }
  const TableId id(table.id());
  const int bits = context_.routes->map.ring_bits();
  ABSL_ASSIGN_OR_RETURN(const ring::Placement placement,
                        schema.kind == table::Kind::kRanged
                            ? ring::Placement::Ranged(id, bits, schema.rows, schema.dim)
                            : ring::Placement::Sparse(id, bits));
  auto info = std::make_shared<const TableInfo>(TableInfo{.id = id,
                                                          .name = table.name(),
                                                          .schema = schema,
                                                          .placement = placement,
                                                          .consistency = consistency,
                                                          .push_filter = push_filter,
                                                          .link_filters = link_filters});
  context_.any_table = info;
  context_.link_filters = {.push = context_.link_filters.push | link_filters.push,
                           .pull = context_.link_filters.pull | link_filters.pull};
  const filter::Precision precision = link_filters.pull.precision();
  filter::Precision& kept = context_.kept_precision.emplace(id, precision).first->second;
  if (kept != precision && kept != filter::Precision::kF32) {
    kept = filter::Precision::kF32;
    context_.cache.ForgetRows(*info);
  }
  context_.changes.Opened(info, table, context_.worker, context_.worker_clock);
  told_version_ = 0;  // this answer may be older than the last one of what has changed
  if (PromiseOf(consistency).adaptive) KeepAliveForBounds();
  return info;
}

void Session::KeepAliveForBounds() {
  if (keep_alive_ <= kKeepAliveForBounds) return;
  keep_alive_ = kKeepAliveForBounds;
  first_keep_alives_ = kFirstKeepAlives;
  KeepAliveAfter(kFirstKeepAlivesForBounds);
}

void Session::SawCatalogue(uint64_t version) {
  context_.catalogue_version = std::max(context_.catalogue_version, CatalogueVersion(version));
}

void Session::FindTable(const std::string& name, absl::Time deadline,
                        absl::AnyInvocable<void(absl::StatusOr<uint32_t>)> done) {
  auto request = InSession<v1::OpenTableRequest>();
  request.set_name(name);
  Ask(&CoordinatorApi::OpenTable, absl::StrCat("table '", name, "'"), deadline, std::move(request),
      [this, done = std::move(done)](absl::StatusOr<v1::OpenTableReply> reply) mutable {
        if (!reply.ok()) return done(reply.status());
        SawCatalogue(reply->catalogue_version());
        done(reply->table().id());
      });
}

// -- work --

void Session::OpenWork(const std::string& name, const v1::WorkSpec& spec,
                       absl::AnyInvocable<void(absl::StatusOr<uint32_t>)> done) {
  auto request = InSession<v1::OpenWorkRequest>();
  request.set_name(name);
  *request.mutable_spec() = spec;
  Ask(&CoordinatorApi::OpenWork, absl::StrCat("open work queue '", name, "'"),
      context_.Now() + options_.timeout, std::move(request),
      [this, done = std::move(done)](absl::StatusOr<v1::OpenWorkReply> reply) mutable {
        done(reply.ok() ? absl::StatusOr<uint32_t>(reply->queue()) : Judge(reply.status()));
      });
}

void Session::ReportWork(v1::ReportWorkRequest request,
                         absl::AnyInvocable<void(absl::StatusOr<v1::ReportWorkReply>)> done) {
  request.set_session(context_.session.v);
  request.set_token(context_.token);
  auto shared = std::make_shared<decltype(done)>(std::move(done));
  context_.deferred.Run([this, &api = api_, request = std::move(request), timeout = 2 * keep_alive_,
                         gate = context_.gate, shared] {
    api.ReportWork(request, timeout, [this, gate, shared](absl::StatusOr<v1::ReportWorkReply> reply) {
      gate->Enter([&] {
        if (!reply.ok()) reply = Judge(reply.status());
        (*shared)(std::move(reply));
      });
    });
  });
}

// -- the end --

void Session::Finish(std::string seals, absl::Time deadline, Done done) {
  auto request = InSession<v1::FinishWorkerRequest>();
  request.set_seals(std::move(seals));
  request.set_clock(context_.worker_clock);
  Ask(&CoordinatorApi::FinishWorker, "finish", deadline, std::move(request),
      [this, done = std::move(done)](absl::StatusOr<v1::FinishWorkerReply> reply) mutable {
        if (reply.ok()) context_.finished = true;
        context_.deferred.Tell(std::move(done), Judge(reply.status()));
      });
}

void Session::Close(std::string reason, absl::Duration timeout, Done done) {
  auto request = InSession<v1::CloseSessionRequest>();
  request.set_reason(std::move(reason));
  request.set_timeout_ms(TimeoutMs(timeout));
  auto shared = std::make_shared<Done>(std::move(done));
  context_.deferred.Run([&api = api_, request, timeout, shared] {
    api.CloseSession(request, timeout,
                     [shared](absl::StatusOr<v1::CloseSessionReply> reply) { (*shared)(reply.status()); });
  });
}

void Session::Stop() {
  stopped_ = true;
  ++watches_;
  context_.timers.Cancel(keep_alive_timer_);
  context_.timers.Cancel(watch_timer_);
  context_.deferred.Run([watch = std::move(watch_)] {});
}

}  // namespace paceline::sdk
