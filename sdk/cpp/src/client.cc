#include "paceline/client.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/wire/schema_codec.h"
#include "sdk/cpp/src/client_state.h"
#include "sdk/cpp/src/push/filter/check.h"
#include "sdk/cpp/src/session/filters.h"
#include "sdk/cpp/src/session/promise.h"
#include "sdk/cpp/src/table_state.h"

namespace paceline {
namespace {

// The fields that both kinds of table share.
template <class Spec>
table::Schema Common(const Spec& spec) {
  table::Schema schema;
  schema.dim = spec.dim;
  schema.init = spec.init;
  schema.rule = spec.rule;
  schema.aggregated = spec.aggregated || sdk::PromiseOf(spec.consistency).exact;
  schema.mean = spec.mean;
  schema.accept_non_finite = spec.accept_non_finite;
  schema.seed = spec.seed;
  return schema;
}

table::Schema ToCore(const TableSchema& spec) {
  if (const auto* ranged = std::get_if<Ranged>(&spec)) {
    table::Schema schema = Common(*ranged);
    schema.kind = table::Kind::kRanged;
    schema.rows = ranged->rows;
    return schema;
  }
  return Common(std::get<Sparse>(spec));
}

absl::StatusOr<Table> OpenTable(const std::shared_ptr<sdk::ClientState>& state, absl::string_view name,
                                const v1::TableSchema* schema, const Consistency& consistency,
                                const PushFilter& push_filter, const LinkFilters& link_filters) {
  // Outlives this call's wait, as the answer may.
  auto table = std::make_shared<std::shared_ptr<const sdk::TableInfo>>();
  const absl::Status opened = state->Await([&](sdk::ClientCore& core, sdk::Done done) {
    core.OpenTable(
        std::string(name), schema, consistency,
        [table, done = std::move(done)](absl::StatusOr<std::shared_ptr<const sdk::TableInfo>> info) mutable {
          if (info.ok()) *table = *std::move(info);
          done(info.status());
        },
        push_filter, sdk::ToCore(link_filters));
  });
  if (!opened.ok()) return opened;
  return Table(std::make_shared<sdk::TableState>(state, *table));
}

template <class Request, class Reply>
absl::StatusOr<Reply> AskOfTable(sdk::ClientState& state,
                                 void (sdk::CoordinatorApi::*method)(const Request&, absl::Duration,
                                                                     sdk::CoordinatorApi::Callback<Reply>),
                                 absl::string_view what, absl::string_view name, Request request) {
  auto answer = std::make_shared<Reply>();  // outlives this call's wait, as the answer may
  const absl::Status asked = state.Await([&](sdk::ClientCore& core, sdk::Done done) {
    core.AskOfTable<Request, Reply>(method, what, std::string(name), std::move(request),
                                    [answer, done = std::move(done)](absl::StatusOr<Reply> reply) mutable {
                                      if (reply.ok()) *answer = *std::move(reply);
                                      done(reply.status());
                                    });
  });
  if (!asked.ok()) return asked;
  return *std::move(answer);
}

absl::Status TickOf(sdk::ClientState& state) {
  absl::Status status = sdk::ClientState::GoneError();
  state.With([&](sdk::ClientCore& core) { status = core.Tick(); });
  return status;
}

}  // namespace

Client::Client(std::shared_ptr<sdk::ClientState> state) : state_(std::move(state)) {}
Client::~Client() {
  state_->Shut();
}

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(ClientOptions options) {
  absl::StatusOr<std::shared_ptr<sdk::ClientState>> state = sdk::ClientState::Connect(std::move(options));
  if (!state.ok()) return state.status();
  return std::unique_ptr<Client>(new Client(*std::move(state)));
}

absl::StatusOr<Table> Client::OpenOrCreate(absl::string_view name, const TableSchema& schema) {
  const table::Schema core = ToCore(schema);
  if (absl::Status valid = table::Validate(core); !valid.ok()) {
    return absl::Status(valid.code(), absl::StrCat("table '", name, "': ", valid.message()));
  }
  const Consistency consistency = std::visit([](const auto& spec) { return spec.consistency; }, schema);
  const PushFilter push_filter = std::visit([](const auto& spec) { return spec.push_filter; }, schema);
  if (push_filter.active()) {
    // Before the table is made.
    const absl::Status suits = sdk::CheckPushFilter(push_filter, consistency, core);
    if (!suits.ok()) {
      return absl::Status(suits.code(), absl::StrCat("table '", name, "': push_filter: ", suits.message()));
    }
  }
  const v1::TableSchema proto = wire::ToProto(core);
  return OpenTable(state_, name, &proto, consistency, push_filter,
                   std::visit([](const auto& spec) { return spec.link_filters; }, schema));
}

absl::StatusOr<Table> Client::Open(absl::string_view name, const Consistency& consistency,
                                   const PushFilter& push_filter, const LinkFilters& link_filters) {
  return OpenTable(state_, name, nullptr, consistency, push_filter, link_filters);
}

absl::Status Client::DropTable(absl::string_view name) {
  return AskOfTable(*state_, &sdk::CoordinatorApi::DropTable, "drop table", name, v1::DropTableRequest())
      .status();
}

absl::StatusOr<uint64_t> Client::ChangeRule(absl::string_view name, const Rule& rule,
                                            const ChangeRuleOptions& options) {
  if (options.now && options.at_clock.has_value()) {
    return absl::InvalidArgumentError("change rule: now and at_clock are both set; choose one");
  }
  v1::ChangeRuleRequest change;
  *change.mutable_rule() = wire::ToProto(rule);
  if (options.now) change.set_now(true);
  if (options.at_clock.has_value()) change.set_at_clock(*options.at_clock);
  ABSL_ASSIGN_OR_RETURN(const v1::ChangeRuleReply changed,
                        AskOfTable(*state_, &sdk::CoordinatorApi::ChangeRule, "change rates of table", name,
                                   std::move(change)));
  return changed.table().rule_clock();
}

absl::Status Client::Tick() {
  return TickOf(*state_);
}

Future<void> Client::TickAfter(const Future<void>& after) {
  if (!after.valid()) return Future<void>::Ready(Tick());
  return after.AndThen([state = state_] { return TickOf(*state); });
}

absl::Status Client::Flush() {
  return state_->Flush();
}

absl::Status Client::Finish() {
  return state_->Finish();
}

uint64_t Client::clock() const {
  uint64_t clock = 0;
  state_->With([&](sdk::ClientCore& core) { clock = core.clock(); });
  return clock;
}

void Client::ReportLoss(double loss) {
  state_->With([&](sdk::ClientCore& core) { core.ReportLoss(loss); });
}

uint32_t Client::rank() const {
  uint32_t rank = 0;
  state_->With([&](sdk::ClientCore& core) { rank = core.rank(); });
  return rank;
}

uint64_t Client::session() const {
  uint64_t session = 0;
  state_->With([&](sdk::ClientCore& core) { session = core.session().v; });
  return session;
}

std::string Client::data_lost() const {
  std::string data_lost;
  state_->With([&](sdk::ClientCore& core) { data_lost = core.data_lost(); });
  return data_lost;
}

Stats Client::stats() const {
  Stats stats;
  state_->With([&](sdk::ClientCore& core) { stats = core.stats(); });
  state_->CountStreams(stats);
  return stats;
}

}  // namespace paceline
