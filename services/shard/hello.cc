#include "services/shard/hello.h"

#include "absl/strings/str_cat.h"

namespace paceline::shard {

v1::Refusal MakeRefusal(v1::Refusal::Reason reason, std::string message) {
  v1::Refusal refusal;
  refusal.set_reason(reason);
  refusal.set_message(std::move(message));
  return refusal;
}

std::optional<v1::Refusal> Greet(const Shard& shard, const v1::Hello& hello, std::optional<Caller>* caller,
                                 v1::Welcome* welcome) {
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
  *caller = Caller{.job = JobId(hello.job()), .session = SessionId(hello.session())};
  const auto view = shard.view();
  welcome->set_feature_level(kFeatureLevel);
  welcome->set_shard(view->self.shard.v);
  welcome->set_incarnation(view->self.incarnation.v);
  welcome->set_map_version(view->map == nullptr ? 0 : view->map->version().v);
  welcome->set_window_bytes(shard.options().window_bytes);
  welcome->set_frame_bytes_max(shard.options().frame_bytes_max);
  welcome->set_shard_name(shard.options().name);
  return std::nullopt;
}

std::optional<v1::Refusal> NotNow(Shard& shard, const Shard::View& view, CatalogueVersion senders) {
  constexpr uint32_t kRetryAfterMs = 20;
  std::optional<v1::Refusal> refusal;
  if (view.stopping) {
    refusal = MakeRefusal(v1::Refusal::UNAVAILABLE, absl::StrCat(shard.options().name, " is stopping"));
  } else if (view.map == nullptr) {
    refusal = MakeRefusal(v1::Refusal::UNAVAILABLE, absl::StrCat(shard.options().name, " has no map yet"));
  } else if (senders > view.catalogue->version()) {
    shard.CatalogueWanted(senders);
    refusal = MakeRefusal(
        v1::Refusal::UNAVAILABLE,
        absl::StrCat(shard.options().name, " is fetching version ", senders.v, " of the list of tables"));
  }
  if (refusal.has_value()) refusal->set_retry_after_ms(kRetryAfterMs);
  return refusal;
}

}  // namespace paceline::shard
