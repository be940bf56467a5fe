#include "services/shard/hello.h"

#include "absl/strings/str_cat.h"

namespace paceline::shard {

v1::Refusal MakeRefusal(v1::Refusal::Reason reason, std::string message) {
  v1::Refusal refusal;
  refusal.set_reason(reason);
  refusal.set_message(std::move(message));
  return refusal;
}

namespace {

// Addresses are used again, by later starts and by other clusters whose ids begin at 1 too: a client that
// goes by an old map must not be served as if it were somebody else.
std::optional<v1::Refusal> NotMeant(const Shard& shard, const Shard::View& view, const v1::Hello& hello) {
  const auto refuse = [&](std::string message) {
    return MakeRefusal(v1::Refusal::UNAVAILABLE, absl::StrCat("hello: ", message, "; wait for a newer map"));
  };
  const std::string& name = shard.options().name;
  const bool known = view.self.incarnation != Incarnation();
  if (hello.cluster() != 0 && view.cluster != 0 && hello.cluster() != view.cluster) {
    return refuse(absl::StrCat("cluster ", hello.cluster(), " is meant; ", name,
                               " at this address is of cluster ", view.cluster));
  }
  if (!hello.has_target()) return std::nullopt;
  if (!known) return refuse(absl::StrCat(name, " has not joined its cluster yet"));
  // Of an earlier start's segments a later one says what became of them.
  const v1::Member& target = hello.target();
  if (ShardId(target.shard()) == view.self.shard &&
      Incarnation(target.incarnation()) <= view.self.incarnation)
    return std::nullopt;
  return refuse(absl::StrCat("shard ", target.shard(), ", incarnation ", target.incarnation(), " is meant; ",
                             name, " at this address is shard ", view.self.shard.v, ", incarnation ",
                             view.self.incarnation.v));
}

}  // namespace

std::optional<v1::Refusal> Greet(const Shard& shard, const v1::Hello& hello, std::optional<Caller>* caller,
                                 v1::Welcome* welcome) {
  if (caller->has_value()) {
    return MakeRefusal(v1::Refusal::MALFORMED, "hello: a second one; a stream has one caller all its life");
  }
  if (hello.feature_level() < kFeatureLevel) {
    return MakeRefusal(v1::Refusal::UNIMPLEMENTED,
                       absl::StrCat("hello: feature_level ", hello.feature_level(),
                                    " is older than the oldest this shard "
                                    "speaks, ",
                                    kFeatureLevel, "; use a newer client"));
  }
  if (hello.session() == 0 || hello.job() == 0) {
    return MakeRefusal(v1::Refusal::FENCED,
                       absl::StrCat("hello: job ", hello.job(), ", session ", hello.session(),
                                    "; expected the ids that Coordinator.OpenSession returned"));
  }
  const auto view = shard.view();
  if (auto refusal = NotMeant(shard, *view, hello)) return refusal;
  *caller = Caller{.job = JobId(hello.job()), .session = SessionId(hello.session())};
  welcome->set_feature_level(kFeatureLevel);
  welcome->set_shard(view->self.shard.v);
  welcome->set_incarnation(view->self.incarnation.v);
  welcome->set_map_version(view->map == nullptr ? 0 : view->map->version().v);
  welcome->set_window_bytes(shard.options().window_bytes);
  welcome->set_frame_bytes_max(shard.options().frame_bytes_max);
  welcome->set_shard_name(shard.options().name);
  welcome->set_cluster(view->cluster);
  return std::nullopt;
}

std::optional<v1::Refusal> NotNow(Shard& shard, const Shard::View& view, CatalogueVersion senders) {
  constexpr uint32_t kRetryAfterMs = 20;
  constexpr uint32_t kNoSuchRetryAfterMs = 500;
  std::optional<v1::Refusal> refusal;
  if (view.stopping) {
    refusal = MakeRefusal(v1::Refusal::UNAVAILABLE, absl::StrCat(shard.options().name, " is stopping"));
  } else if (view.map == nullptr) {
    refusal = MakeRefusal(v1::Refusal::UNAVAILABLE, absl::StrCat(shard.options().name, " has no map yet"));
  } else if (senders > view.catalogue->version()) {
    const bool exists = shard.CatalogueWanted(senders);
    refusal = MakeRefusal(
        v1::Refusal::UNAVAILABLE,
        exists
            ? absl::StrCat(shard.options().name, " is fetching version ", senders.v, " of the list of tables")
            : absl::StrCat("catalogue_version: ", senders.v,
                           "; the coordinator's list of tables has version ", view.catalogue->version().v,
                           ": name the version that came with the list, or open the table again"));
    if (!exists) refusal->set_retry_after_ms(kNoSuchRetryAfterMs);
  }
  if (refusal.has_value() && refusal->retry_after_ms() == 0) refusal->set_retry_after_ms(kRetryAfterMs);
  return refusal;
}

}  // namespace paceline::shard
