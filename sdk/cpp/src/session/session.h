#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "libs/base/retry.h"
#include "sdk/cpp/src/push/pusher.h"
#include "sdk/cpp/src/session/context.h"
#include "sdk/cpp/src/session/coordinator_api.h"

namespace paceline::sdk {

// Everything between a client and the coordinator: the session's life, the map, the list of tables.
class Session {
 public:
  struct Options {
    std::string coordinator;  // host:port, for messages
    std::string job;
    std::string client_name;
    std::string token;
    uint32_t workers = 0;
    std::optional<uint32_t> rank;
    BackoffPolicy backoff = kDefaultBackoff;
    absl::Duration timeout = absl::Seconds(60);
    absl::Duration start_timeout = absl::Minutes(5);
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
                 TableCallback done);

  // Ends the table that has this name when the request is answered.
  void DropTable(const std::string& name, Done done);
  // `change` without session and table. `done` gets the agreed clock.
  void ChangeRule(const std::string& name, v1::ChangeRuleRequest change,
                  absl::AnyInvocable<void(absl::StatusOr<Clock>)> done);

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
  void OnKeptAlive(absl::StatusOr<v1::KeepAliveReply> reply);

  void StartWatch();
  void OnWatchEnded();
  absl::Status TakeMap(const v1::Map& map);

  absl::StatusOr<std::shared_ptr<const TableInfo>> TakeTable(const v1::OpenTableReply& reply,
                                                             const Consistency& consistency);
  // The id of the table that has this name now.
  void FindTable(const std::string& name, absl::Time deadline,
                 absl::AnyInvocable<void(absl::StatusOr<uint32_t>)> done);
  void SawCatalogue(uint64_t version);
  // Repeats the request until the deadline.
  template <class Request, class Reply>
  void Ask(void (CoordinatorApi::*method)(const Request&, absl::Duration, CoordinatorApi::Callback<Reply>),
           absl::string_view what, absl::Time deadline, Request request,
           std::type_identity_t<absl::AnyInvocable<void(absl::StatusOr<Reply>)>> done);

  Context& context_;
  CoordinatorApi& api_;
  const Options options_;
  const OnMap on_map_;
  Done opened_;
  bool stopped_ = false;

  absl::Duration keep_alive_ = absl::Seconds(1);
  Timers::Id keep_alive_timer_;

  std::shared_ptr<CoordinatorApi::Watch> watch_;
  uint64_t watches_ = 0;  // counts them: maps from an earlier one are void
  bool watching_ = false;
  Backoff watch_backoff_;
  Timers::Id watch_timer_;
};

}  // namespace paceline::sdk
