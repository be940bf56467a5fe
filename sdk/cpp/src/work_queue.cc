#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/wire/work_items.h"
#include "paceline/client.h"
#include "paceline/work.h"
#include "sdk/cpp/src/client_state.h"

namespace paceline {

absl::StatusOr<WorkQueue> Client::OpenWork(absl::string_view name, const WorkOptions& options) {
  v1::WorkSpec spec;
  spec.set_examples(options.examples);
  spec.set_per_item(options.per_item);
  spec.set_passes(options.passes);
  spec.set_passes_in_order(options.passes_in_order);
  if (absl::Status valid = wire::CheckWorkSpec(spec); !valid.ok()) {
    return absl::Status(valid.code(), absl::StrCat("work queue '", name, "': ", valid.message()));
  }
  if (options.ahead < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "work queue '", name, "': ahead: ", absl::FormatDuration(options.ahead), "; expected at least 0"));
  }
  auto queue = std::make_shared<uint32_t>(0);  // outlives this call's wait, as the answer may
  const absl::Status opened = state_->Await([&](sdk::ClientCore& core, sdk::Done done) {
    core.OpenWork(std::string(name), spec, options.ahead,
                  [queue, done = std::move(done)](absl::StatusOr<uint32_t> id) mutable {
                    if (id.ok()) *queue = *id;
                    done(id.status());
                  });
  });
  if (!opened.ok()) return opened;
  return WorkQueue(state_, *queue);
}

absl::StatusOr<std::optional<WorkItem>> WorkQueue::Next(const NextOptions& options) {
  const absl::Duration timeout = options.timeout.value_or(client_->options().timeout);
  auto next = std::make_shared<std::optional<WorkItem>>();
  const absl::Status status = client_->Await(
      [&](sdk::ClientCore& core, sdk::Done done) {
        core.work(queue_).Next(
            timeout, [next, done = std::move(done)](absl::StatusOr<std::optional<WorkItem>> item) mutable {
              if (item.ok()) *next = *item;
              done(item.status());
            });
      },
      nullptr, sdk::WaitCause::kWork);
  if (!status.ok()) return status;
  return *next;
}

absl::Status WorkQueue::Mark(const WorkItem& item, uint64_t position) {
  absl::Status status = sdk::ClientState::GoneError();
  client_->With([&](sdk::ClientCore& core) { status = core.work(queue_).Mark(item, position); });
  return status;
}

absl::Status WorkQueue::Done(const WorkItem& item) {
  absl::Status status = sdk::ClientState::GoneError();
  client_->With([&](sdk::ClientCore& core) { status = core.work(queue_).Done(item); });
  return status;
}

absl::Status WorkQueue::Leave() {
  return client_->Await([this](sdk::ClientCore& core, sdk::Done done) {
    core.work(queue_).Leave(client_->options().timeout, std::move(done));
  });
}

}  // namespace paceline
