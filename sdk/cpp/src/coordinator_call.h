#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/base/retry.h"
#include "sdk/cpp/src/session/context.h"
#include "sdk/cpp/src/session/coordinator_api.h"

namespace paceline::sdk {

// As requests state it.
inline uint32_t TimeoutMs(absl::Duration duration) {
  return static_cast<uint32_t>(std::clamp<int64_t>(absl::ToInt64Milliseconds(duration), 1, UINT32_MAX));
}

// One request to the coordinator, repeated until there is an answer or the time is up. Keeps itself alive.
// Requests are idempotent.
//
// `done` is called once, inside the gate, unless the core is gone by then.
template <class Request, class Reply>
class CoordinatorCall : public std::enable_shared_from_this<CoordinatorCall<Request, Reply>> {
 public:
  using Method = void (CoordinatorApi::*)(const Request&, absl::Duration, CoordinatorApi::Callback<Reply>);
  using DoneCallback = absl::AnyInvocable<void(absl::StatusOr<Reply>)>;

  CoordinatorCall(Context& context, CoordinatorApi& api, Method method, std::string what, absl::Time deadline,
                  Request request, DoneCallback done)
      : context_(context),
        gate_(context.gate),
        api_(api),
        method_(method),
        what_(std::move(what)),
        started_(context.Now()),
        deadline_(deadline),
        request_(std::move(request)),
        done_(std::move(done)),
        backoff_(context.backoff) {}

  void Start() {
    context_.asked.try_emplace(this, Context::Asked{.what = what_, .since = started_, .last_answer = ""});
    const absl::Duration left = deadline_ - context_.Now();
    // The coordinator gets a shorter timeout, so that its answer, which names the cause, comes
    // before the call itself ends.
    if constexpr (requires { request_.set_timeout_ms(0); }) {
      const absl::Duration its = left - std::min(left / 4, absl::Seconds(2));
      request_.set_timeout_ms(TimeoutMs(its));
    }
    // Outside the gate: the callback must not run inside this visit, and the stubs need not know of the gate.
    context_.deferred.Run([self = this->shared_from_this(), left] {
      (self->api_.*self->method_)(self->request_, left, [self](absl::StatusOr<Reply> reply) {
        self->gate_->Enter([&] { self->OnReply(std::move(reply)); });
      });
    });
  }

 private:
  void OnReply(absl::StatusOr<Reply> reply) {
    const bool worth_another =
        absl::IsUnavailable(reply.status()) || absl::IsDeadlineExceeded(reply.status());
    if (reply.ok() || !worth_another) return End(std::move(reply));
    const absl::Time now = context_.Now();
    // The coordinator's own word, and its cause. The last request may have too little time left to hear it.
    if (absl::IsDeadlineExceeded(reply.status()) && now < deadline_)
      cause_ = std::string(reply.status().message());
    context_.asked[this].last_answer = std::string(reply.status().message());
    const absl::Time next = now + backoff_.Next(context_.random.Next());
    if (next >= deadline_) return EndInVain(reply.status());
    context_.timers.At(next, [self = this->shared_from_this()] { self->Start(); });
  }

  void EndInVain(const absl::Status& last) {
    const absl::Time now = context_.Now();
    const bool cause_known = !cause_.empty() && now >= deadline_;
    End(absl::DeadlineExceededError(
        absl::StrCat(what_, ": ", cause_known ? absl::string_view(cause_) : last.message(), "; waited ",
                     absl::FormatDuration(now - started_),
                     cause_known ? "; try again" : "; see that a coordinator runs there, and try again")));
  }

  void End(absl::StatusOr<Reply> reply) {
    context_.asked.erase(this);
    done_(std::move(reply));
  }

  Context& context_;
  const std::shared_ptr<Gate> gate_;
  CoordinatorApi& api_;
  const Method method_;
  const std::string what_;
  const absl::Time started_;
  const absl::Time deadline_;
  Request request_;
  DoneCallback done_;
  Backoff backoff_;
  std::string cause_;  // of a coordinator that waited in vain
};

}  // namespace paceline::sdk
