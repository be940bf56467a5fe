#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "libs/base/retry.h"
#include "sdk/cpp/src/coordinator_call.h"
#include "sdk/cpp/src/push/pusher.h"
#include "sdk/cpp/src/session/context.h"
#include "sdk/cpp/src/session/coordinator_api.h"

namespace paceline::sdk {

// Everything between a client and the coordinator: the session's life, the map, the list of tables.
class Session {
 public:
  template <class Request, class Reply>
  using CallOf = void (CoordinatorApi::*)(const Request&, absl::Duration, CoordinatorApi::Callback<Reply>);

  struct Options {
    std::string coordinator;  // host:port, for messages
    std::string job;
    std::string client_name;
    uint32_t workers = 0;
    std::optional<uint32_t> rank;
    BackoffPolicy backoff = kDefaultBackoff;
    absl::Duration timeout = absl::Seconds(60);
    absl::Duration start_timeout = absl::Minutes(5);
    size_t slice_bytes = kFrameBytes;          // see Context
    size_t shares_from = wire::kWorthSharing;  // likewise
  };
  using TableCallback = absl::AnyInvocable<void(absl::StatusOr<std::shared_ptr<const TableInfo>>)>;
  // Called for every newer map, in order.
  using OnMap = std::function<void(std::shared_ptr<const Routes>)>;

  Session(Context& context, CoordinatorApi& api, Options options, OnMap on_map);

  // Opens the session and, if the options say so, joins the clocks. When it has succeeded, the context is
  // filled in.
  void Open(Done done);

  // `schema` of a table to create if it does not exist; nullptr: the table must exist.
  void OpenTable(std::string name, const v1::TableSchema* schema, Consistency consistency,
                 const PushFilter& push_filter, const filter::LinkFilters& link_filters, TableCallback done);

  // Asks for what the request is about, with the table that has this name when it is answered; `request`
  // without session and table. By its id: if the answer is lost and the request repeated, it must not concern
  // a table that took the name since.
  template <class Request, class Reply>
  void AskOfTable(CallOf<Request, Reply> method, absl::string_view what, const std::string& name,
                  Request request, absl::AnyInvocable<void(absl::StatusOr<Reply>)> done) {
    const absl::Time deadline = context_.Now() + options_.timeout;
    FindTable(name, deadline,
              [this, method, what = absl::StrCat(what, " '", name, "'"), deadline, request,
               done = std::move(done)](absl::StatusOr<uint32_t> id) mutable {
                if (!id.ok()) return context_.deferred.Tell(std::move(done), id.status());
                request.set_session(context_.session.v);
                request.set_token(context_.token);
                request.set_table(*id);
                Ask(method, what, deadline, std::move(request),
                    [this, done = std::move(done)](absl::StatusOr<Reply> reply) mutable {
                      if (reply.ok()) SawCatalogue(reply->catalogue_version());
                      if constexpr (requires { reply->table(); }) {  // new rates
                        if (reply.ok())
                          context_.changes.Told(reply->table(), context_.worker, context_.worker_clock);
                      }
                      context_.deferred.Tell(std::move(done), std::move(reply));
                    });
              });
  }

  // Opens a work queue: `done` gets its id.
  void OpenWork(const std::string& name, const v1::WorkSpec& spec,
                absl::AnyInvocable<void(absl::StatusOr<uint32_t>)> done);
  // One try. `done` runs inside the gate.
  void ReportWork(v1::ReportWorkRequest request,
                  absl::AnyInvocable<void(absl::StatusOr<v1::ReportWorkReply>)> done);

  // The last tick, with the seals of all parts.
  void Finish(std::string seals, absl::Time deadline, Done done);

  // One try, without a guarantee.
  void Close(std::string reason, absl::Duration timeout, Done done);

  // A map of this version exists.
  void WantMap(MapVersion version);

  // No more keep-alives and maps; requests under way end by themselves.
  void Stop();

 private:
  void OnOpened(absl::StatusOr<v1::OpenSessionReply> reply);
  // Puts the map in the place where it is if the coordinator does not send it in its compact form.
  absl::Status ExpandMap(v1::OpenSessionReply& reply) const;
  void Join();
  void OnJoined(absl::StatusOr<v1::JoinJobReply> reply);
  void EndOpen(absl::Status status);

  // The client's end because of the coordinator's answer `why`.
  absl::Status Over(absl::string_view why) const;
  // `status`; or, if it says that the session is over, the client's failure from now on. For an open session
  // the coordinator answers failed precondition for no other reason.
  absl::Status Judge(const absl::Status& status);

  void KeepAliveAfter(absl::Duration pause);
  void SendKeepAlive();
  // `stated`: the version that the keep-alive told.
  void OnKeptAlive(absl::StatusOr<v1::KeepAliveReply> reply, uint64_t stated);

  void StartWatch();
  void OnWatchEnded();
  absl::Status TakeMap(const v1::Map& map);

  absl::Status CheckValueBound(const Consistency& consistency, const table::Schema& schema) const;
  // OK: pushes to the table may be held back, and the coordinator knows that.
  absl::Status CheckHeldBack(const PushFilter& push_filter, const Consistency& consistency,
                             const v1::Table& table, const table::Schema& schema) const;
  absl::StatusOr<std::shared_ptr<const TableInfo>> TakeTable(const v1::OpenTableReply& reply,
                                                             const Consistency& consistency,
                                                             const PushFilter& push_filter,
                                                             const filter::LinkFilters& link_filters);
  // The coordinator hears of waits sooner, and tells of changes sooner.
  void KeepAliveForBounds();
  // The id of the table that has this name now.
  void FindTable(const std::string& name, absl::Time deadline,
                 absl::AnyInvocable<void(absl::StatusOr<uint32_t>)> done);
  void SawCatalogue(uint64_t version);
  // A request of this session.
  template <class Request>
  Request InSession() const {
    Request request;
    request.set_session(context_.session.v);
    request.set_token(context_.token);
    return request;
  }
  // Repeats the request until the deadline.
  template <class Request, class Reply>
  void Ask(CallOf<Request, Reply> method, absl::string_view what, absl::Time deadline, Request request,
           std::type_identity_t<absl::AnyInvocable<void(absl::StatusOr<Reply>)>> done) {
    std::make_shared<CoordinatorCall<Request, Reply>>(
        context_, api_, method, absl::StrCat(what, ": coordinator at ", options_.coordinator), deadline,
        std::move(request), std::move(done))
        ->Start();
  }

  Context& context_;
  CoordinatorApi& api_;
  const Options options_;
  const OnMap on_map_;
  Done opened_;
  bool stopped_ = false;

  absl::Duration keep_alive_ = absl::Seconds(1);
  uint32_t first_keep_alives_ = 0;  // that are still to come, sooner one after another
  uint64_t told_version_ = 0;       // of the catalogue: the changes up to it are known
  Timers::Id keep_alive_timer_;

  std::shared_ptr<CoordinatorApi::Watch> watch_;
  uint64_t watches_ = 0;  // counts them: maps from an earlier one are void
  bool watching_ = false;
  Backoff watch_backoff_;
  Timers::Id watch_timer_;
};

}  // namespace paceline::sdk
