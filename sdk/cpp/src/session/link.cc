#include "sdk/cpp/src/session/link.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/base/feature_level.h"
#include "libs/base/text.h"

namespace paceline::sdk {
namespace {

// A shard that does not answer a hello for this long is dialed again: its machine may be gone, and another
// one may have its address.
constexpr absl::Duration kWelcomeTimeout = absl::Seconds(5);

}  // namespace

// Receives the events of one stream's carrier. Lives as long as the carrier wants; the link may already use
// another stream.
class Link::Stream final : public world::StreamHandler {
 public:
  Stream(std::shared_ptr<Link> link, uint64_t number)
      : gate_(link->context_.gate), link_(std::move(link)), number_(number) {}

  void OnFrame(absl::Cord frame) override {
    gate_->Enter([&] {
      if (!Current()) return;
      // A stream that works ends the growth of the pauses; a welcome alone may be followed by a break at
      // once.
      if (link_->usable()) link_->backoff_.Reset();
      link_->Receive(std::move(frame));
    });
  }
  bool NextFrame(absl::Cord* frame) override {
    bool some = false;
    gate_->Enter([&] { some = Current() && link_->NextFrame(frame); });
    return some;
  }
  void OnBroken(absl::Status why) override {
    gate_->Enter([&] {
      if (Current()) link_->Broken(std::move(why));
    });
  }

 private:
  bool Current() const { return link_->stream_ == number_; }

  const std::shared_ptr<Gate> gate_;
  const std::shared_ptr<Link> link_;
  const uint64_t number_;
};

Link::Link(Context& context, world::StreamKind kind, ring::ShardInfo shard)
    : context_(context), kind_(kind), shard_(std::move(shard)), backoff_(context.backoff) {}

void Link::SetShard(const ring::ShardInfo& shard) {
  const bool moved = shard.address != shard_.address;
  const bool restarted = usable() && welcomed_by_ < shard.incarnation;
  shard_ = shard;
  if (state_ != State::kDialing && state_ != State::kWelcomed) return;
  if (moved)
    Broken(absl::UnavailableError("it has moved to another address"));
  else if (restarted)
    Broken(absl::UnavailableError("it was restarted"));
}

void Link::Wake() {
  switch (state_) {
    case State::kIdle:
      if (HasWork()) Dial();
      return;
    case State::kDialing:
    case State::kWelcomed:
      if (port_ != nullptr) context_.deferred.Kick(port_);
      return;
    case State::kBackingOff:
    case State::kShut:
      return;
  }
}

void Link::DialAhead() {
  if (state_ != State::kIdle) return;
  ahead_ = true;
  Dial();
}

void Link::Dial() {
  state_ = State::kDialing;
  said_hello_ = false;
  ++stream_;
  timer_ = context_.timers.At(context_.Now() + kWelcomeTimeout, [this] {
    Broken(absl::DeadlineExceededError(
        absl::StrCat("no welcome within ", absl::FormatDuration(kWelcomeTimeout))));
  });
  // Outside the gate, because the carrier may come straight back in.
  context_.deferred.Run([link = shared_from_this(), &dialer = context_.dialer, gate = context_.gate,
                         address = shard_.address, number = stream_] {
    std::shared_ptr<world::StreamPort> port =
        dialer.Dial(address, link->kind_, std::make_shared<Stream>(link, number));
    gate->Enter([&] { link->SetPort(number, port); });
  });
}

void Link::SetPort(uint64_t stream, std::shared_ptr<world::StreamPort> port) {
  if (stream != stream_) return;  // broken already; letting go of the port closes it
  port_ = std::move(port);
  context_.deferred.Kick(port_);
}

bool Link::NextFrame(absl::Cord* frame) {
  if (!said_hello_) {
    said_hello_ = true;
    *frame = Hello();
    return true;
  }
  return state_ == State::kWelcomed && Next(frame);
}

absl::Cord Link::Hello() const {
  const auto fill = [this](v1::Hello* hello) {
    hello->set_feature_level(kFeatureLevel);
    hello->set_job(context_.job.v);
    hello->set_session(context_.session.v);
    hello->set_token(context_.token);
    hello->set_client(context_.client_name);
    hello->set_cluster(context_.cluster);
    hello->mutable_target()->set_shard(shard_.id.v);
    hello->mutable_target()->set_incarnation(shard_.incarnation.v);
    OfferFilters(*hello);
  };
  if (kind_ == world::StreamKind::kPush) {
    v1::PushRequest request;
    fill(request.mutable_hello());
    return absl::Cord(request.SerializeAsString());
  }
  if (kind_ == world::StreamKind::kSubscribe) {
    v1::SubscribeRequest request;
    fill(request.mutable_hello());
    return absl::Cord(request.SerializeAsString());
  }
  v1::PullRequest request;
  fill(request.mutable_hello());
  return absl::Cord(request.SerializeAsString());
}

void Link::OfferFilters(v1::Hello& hello) const {
  if (kind_ == world::StreamKind::kSubscribe) return;
  const bool push = kind_ == world::StreamKind::kPush;
  const filter::FilterSet of_tables = push ? context_.link_filters.push : context_.link_filters.pull;
  filter::FilterSet offered = push ? filter::FilterSet::All() : filter::FilterSet::OfKeys();
  if (!of_tables.Has(filter::Filter::kKeys)) offered.Remove(filter::Filter::kKeys);
  for (const uint32_t number : offered.Numbers()) hello.add_filters(number);
  for (const uint32_t number : filter::FilterSet::OfValues().Numbers()) hello.add_reply_filters(number);
}

void Link::Welcomed(const v1::Welcome& welcome) {
  if (state_ != State::kDialing) return;
  if (absl::Status stranger = CheckMeant(welcome); !stranger.ok()) return Broken(std::move(stranger));
  context_.timers.Cancel(timer_);
  state_ = State::kWelcomed;
  ahead_ = false;
  usable_since_ = context_.Now();
  welcomed_by_ = Incarnation(welcome.incarnation());
  feature_level_ = welcome.feature_level();
  window_bytes_ = welcome.window_bytes();
  frame_bytes_max_ = welcome.frame_bytes_max();
  filters_ = filter::KnownOf(welcome.filters());
  reply_filters_ = filter::KnownOf(welcome.reply_filters());
  key_list_bytes_ = welcome.key_list_bytes();
  last_error_ = absl::OkStatus();
  if (MapVersion(welcome.map_version()) > context_.routes->map.version()) {
    context_.want_map(MapVersion(welcome.map_version()));
  }
  OnUp();
  Wake();
}

absl::Status Link::CheckMeant(const v1::Welcome& welcome) const {
  if (welcome.cluster() != 0 && context_.cluster != 0 && welcome.cluster() != context_.cluster) {
    return absl::UnavailableError(absl::StrCat("who answers is ", welcome.shard_name(), " of cluster ",
                                               welcome.cluster(), ", not of cluster ", context_.cluster));
  }
  // A later start than the map's is fine: the map is on its way.
  if (welcome.incarnation() == 0 ||
      (ShardId(welcome.shard()) == shard_.id && Incarnation(welcome.incarnation()) >= shard_.incarnation)) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat("who answers is shard ", welcome.shard(), ", incarnation ",
                                             welcome.incarnation(), "; the map says shard ", shard_.id.v,
                                             ", incarnation ", shard_.incarnation.v));
}

void Link::RefusedAtHello(const v1::Refusal& refusal) {
  const std::string message = absl::StrCat(Name(), ": ", Escaped(refusal.message()));
  switch (refusal.reason()) {
    case v1::Refusal::FENCED:
      return context_.fail(
          absl::AbortedError(absl::StrCat("session ", context_.session.v, " of job '", context_.job_name,
                                          "' is over: ", message, "; connect again")));
    case v1::Refusal::UNIMPLEMENTED:
      return context_.fail(absl::UnimplementedError(message));
    case v1::Refusal::MALFORMED:
    case v1::Refusal::INVALID:
      return context_.fail(absl::InternalError(message));
    case v1::Refusal::DATA_LOSS:
      return context_.fail(absl::DataLossError(message));
    default:
      return Broken(absl::UnavailableError(Escaped(refusal.message())));
  }
}

void Link::BrokeRules(absl::Status what) {
  context_.fail(
      absl::InternalError(absl::StrCat(Describe(), ": broke the rules of the wire: ", what.message(),
                                       "; client and shard may be of incompatible versions")));
}

void Link::Broken(absl::Status why) {
  if (state_ != State::kDialing && state_ != State::kWelcomed) return;
  if (state_ == State::kWelcomed) ++context_.stats.breaks;
  if (why.ok()) why = absl::UnavailableError("it ended the stream");
  EndStream(why);
  last_error_ = std::move(why);
  BackOff();
  OnDown();
}

void Link::EndStream(absl::Status why) {
  context_.timers.Cancel(timer_);
  ++stream_;
  if (port_ == nullptr) return;
  context_.deferred.Run([port = std::move(port_), why = std::move(why)] { port->Close(why); });
  port_ = nullptr;
}

void Link::BackOff() {
  // A dial ahead that failed delays nobody: the first that has something to send dials at once.
  if (std::exchange(ahead_, false) && !HasWork()) {
    state_ = State::kIdle;
    return;
  }
  state_ = State::kBackingOff;
  const absl::Duration pause = backoff_.Next(context_.random.Next());
  timer_ = context_.timers.At(context_.Now() + pause, [this] {
    state_ = State::kIdle;
    Wake();
  });
}

void Link::Shut() {
  if (state_ == State::kShut) return;
  EndStream(absl::CancelledError("the client no longer needs this stream"));
  state_ = State::kShut;
}

std::string Link::Describe() const {
  absl::string_view state = "connected";
  if (!last_error_.ok()) {
    state = last_error_.message();
    // The dialer's message names the address too.
    if (absl::ConsumePrefix(&state, shard_.address)) absl::ConsumePrefix(&state, ": ");
  } else if (!usable()) {
    state = "not connected yet";
  }
  return absl::StrCat(Name(), ": ", state);
}

std::string Link::Name() const {
  return absl::StrCat(shard_.name, " at ", shard_.address);
}

}  // namespace paceline::sdk
