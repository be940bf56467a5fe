#include "services/shard/streams/hello.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/mutex.h"
#include "libs/base/planted.h"
#include "libs/base/text.h"
#include "libs/wire/texts.h"

namespace paceline::shard {

v1::Refusal MakeRefusal(v1::Refusal::Reason reason, const std::string& message) {
  v1::Refusal refusal;
  refusal.set_reason(reason);
  refusal.set_message(Escaped(message));
  return refusal;
}

absl::Status NoHello(const Context& context) {
  return absl::DeadlineExceededError(absl::StrCat("hello: none within ",
                                                  absl::FormatDuration(context.options().hello_timeout),
                                                  "; the first frame of a stream is a Hello, alone"));
}

absl::Status NotReading(const Context& context) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "replies have waited to be read for more than ", absl::FormatDuration(context.options().unread_timeout),
      ", and all clients' take ", context.replies().taken(), " bytes; read replies while you ask"));
}

namespace {

// Later starts, and other clusters whose ids begin at 1 too, use the same address again. A client with an old
// map must not be served as if it meant them.
std::optional<v1::Refusal> NotMeant(const Context& context, const View& view, const v1::Hello& hello) {
  const auto refuse = [&](std::string message) {
    return MakeRefusal(v1::Refusal::UNAVAILABLE, absl::StrCat("hello: ", message, "; wait for a newer map"));
  };
  const std::string& name = context.options().name;
  const bool known = view.self.incarnation != Incarnation();
  if (hello.cluster() != 0 && view.cluster != 0 && hello.cluster() != view.cluster) {
    return refuse(absl::StrCat("cluster ", hello.cluster(), " is meant; ", name,
                               " at this address is of cluster ", view.cluster));
  }
  if (!hello.has_target()) return std::nullopt;
  if (!known) return refuse(absl::StrCat(name, " has not joined its cluster yet"));
  // A later start tells what became of the segments of an earlier one.
  const v1::Member& target = hello.target();
  if (ShardId(target.shard()) == view.self.shard &&
      Incarnation(target.incarnation()) <= view.self.incarnation)
    return std::nullopt;
  return refuse(absl::StrCat("shard ", target.shard(), ", incarnation ", target.incarnation(), " is meant; ",
                             name, " at this address is shard ", view.self.shard.v, ", incarnation ",
                             view.self.incarnation.v));
}

}  // namespace

bool IsStranger(SegmentHost& host, const Caller& caller) {
  if (caller.shown->opened() || host.primary() == nullptr || Planted(Bug::kTokenNotAsked)) return false;
  const log::Segment::SessionState* session = host.primary()->segment().FindSession(caller.session);
  return session != nullptr && !caller.shown->Opens(session->secret_sha256);
}

v1::Refusal StrangersRefusal(const Caller& caller) {
  return MakeRefusal(v1::Refusal::FENCED,
                     absl::StrCat("hello: token: it is not the secret of session ", caller.session.v,
                                  "; expected the secret that OpenSession returned"));
}

std::optional<v1::Refusal> Greet(const Context& context, const v1::Hello& hello,
                                 std::optional<Caller>* caller, v1::Welcome* welcome) {
  if (caller->has_value()) {
    return MakeRefusal(v1::Refusal::MALFORMED, "hello: a second one; a stream has one caller all its life");
  }
  if (hello.feature_level() < kOldestFeatureLevel) {
    return MakeRefusal(v1::Refusal::UNIMPLEMENTED,
                       absl::StrCat("hello: feature_level ", hello.feature_level(),
                                    " is older than the oldest this shard "
                                    "speaks, ",
                                    kOldestFeatureLevel, "; use a newer client"));
  }
  if (hello.session() == 0 || hello.job() == 0) {
    return MakeRefusal(v1::Refusal::FENCED,
                       absl::StrCat("hello: job ", hello.job(), ", session ", hello.session(),
                                    "; expected the ids that Coordinator.OpenSession returned"));
  }
  if (const absl::Status wrong = wire::CheckTexts(hello); !wrong.ok()) {
    return MakeRefusal(v1::Refusal::INVALID, absl::StrCat("hello: ", wrong.message()));
  }
  const auto view = context.view();
  if (auto refusal = NotMeant(context, *view, hello)) return refusal;
  Caller said{.job = JobId(hello.job()),
              .session = SessionId(hello.session()),
              .shown = std::make_shared<const secret::Shown>(hello.token()),
              .reply_filters = filter::KnownOf(hello.reply_filters()) & filter::FilterSet::OfValues()};
  // No segment here may know the session yet: then the first one that does decides (IsStranger).
  const std::string known = context.known_sessions().DigestOf(said.session);
  if (!said.shown->Opens(known) && !Planted(Bug::kTokenNotAsked)) return StrangersRefusal(said);
  *caller = std::move(said);
  welcome->set_feature_level(std::min(hello.feature_level(), kFeatureLevel));
  welcome->set_shard(view->self.shard.v);
  welcome->set_incarnation(view->self.incarnation.v);
  welcome->set_map_version(view->map == nullptr ? 0 : view->map->version().v);
  welcome->set_window_bytes(context.options().window_bytes);
  welcome->set_frame_bytes_max(context.options().frame_bytes_max);
  welcome->set_shard_name(context.options().name);
  welcome->set_cluster(view->cluster);
  return std::nullopt;
}

void AskWhetherOver(Context& context, const Caller& caller,
                    std::function<void(const std::optional<v1::Refusal>&)> tell) {
  struct Answer {
    Mutex mutex;
    std::optional<v1::Refusal> over ABSL_GUARDED_BY(mutex);
  };
  auto answer = std::make_shared<Answer>();
  context.ForEachSegment(
      [caller, answer](SegmentHost& host) {
        if (host.primary() == nullptr) return;
        std::optional<v1::Refusal> over = host.primary()->WhyOver(caller.session, caller.job);
        if (!over.has_value()) return;
        MutexLock lock(&answer->mutex);
        // Keeps the longest reason: not all segments are told why.
        if (!answer->over.has_value() || answer->over->message().size() < over->message().size())
          answer->over = std::move(over);
      },
      [answer, tell = std::move(tell)] {
        MutexLock lock(&answer->mutex);
        if (answer->over.has_value()) answer->over->clear_segment();
        tell(answer->over);
      });
}

std::optional<v1::Refusal> NotNow(Context& context, const View& view, CatalogueVersion senders) {
  constexpr uint32_t kRetryAfterMs = 20;
  constexpr uint32_t kNoSuchRetryAfterMs = 500;
  std::optional<v1::Refusal> refusal;
  if (view.stopping) {
    refusal = MakeRefusal(v1::Refusal::UNAVAILABLE, absl::StrCat(context.options().name, " is stopping"));
  } else if (view.map == nullptr) {
    refusal = MakeRefusal(v1::Refusal::UNAVAILABLE, absl::StrCat(context.options().name, " has no map yet"));
  } else if (senders > view.catalogue->version()) {
    const bool exists = context.CatalogueWanted(senders);
    refusal = MakeRefusal(
        v1::Refusal::UNAVAILABLE,
        exists ? absl::StrCat(context.options().name, " is fetching version ", senders.v,
                              " of the list of tables")
               : absl::StrCat("catalogue_version: ", senders.v,
                              "; the coordinator's list of tables has version ", view.catalogue->version().v,
                              ": name the version that came with the list, or open the table again"));
    if (!exists) refusal->set_retry_after_ms(kNoSuchRetryAfterMs);
  }
  if (refusal.has_value() && refusal->retry_after_ms() == 0) refusal->set_retry_after_ms(kRetryAfterMs);
  return refusal;
}

}  // namespace paceline::shard
