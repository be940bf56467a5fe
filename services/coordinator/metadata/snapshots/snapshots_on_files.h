#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "services/coordinator/metadata/snapshots/snapshots.h"

namespace paceline::coordinator {

template <class Result>
void Snapshots::OnFiles(std::function<Result(snapshot::Files&)> work, std::function<void(Result)> then) {
  auto result = std::make_shared<std::optional<Result>>();
  const std::function<void(Result)> enter = AsVisit<Result>(context_, std::move(then));
  context_.outbox.Add([files = context_.options.snapshots, work = std::move(work), result, enter] {
    files->Run([work, result](snapshot::Files& at) { *result = work(at); },
               [result, enter] { enter(*std::move(*result)); });
  });
}

template <class Reply, class Result>
Ticket Snapshots::RunErrand(absl::Time deadline, const Done<Reply>& done,
                            std::function<Result(snapshot::Files&)> work,
                            std::function<absl::StatusOr<Reply>(const Result&)> answer) {
  const Ticket ticket = sessions_.NewTicket();
  errands_[ticket] = {.deadline = deadline,
                      .fail = [this, done](const absl::Status& why) { sessions_.Tell(done, {why}); }};
  OnFiles<Result>(std::move(work), [this, ticket, done, answer = std::move(answer)](const Result& result) {
    if (errands_.erase(ticket) > 0) sessions_.Tell(done, answer(result));
  });
  return ticket;
}

}  // namespace paceline::coordinator
