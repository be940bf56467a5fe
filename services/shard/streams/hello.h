#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "libs/base/feature_level.h"
#include "libs/base/ids.h"
#include "libs/filter/filter.h"
#include "libs/secret/secret.h"
#include "paceline/v1/shard.pb.h"
#include "services/shard/context.h"

namespace paceline::shard {

// The caller on a stream, from its Hello.
struct Caller {
  JobId job;
  SessionId session;
  std::shared_ptr<const secret::Shown> shown;  // its token
  filter::FilterSet reply_filters = {};        // that it understands, and may ask for
};

// True: the session is open at the segment, with the SHA-256 of a secret that the caller has not shown.
// Compares until the caller was right once. REQUIRES: on the segment's executor.
bool IsStranger(SegmentHost& host, const Caller& caller);
// The refusal of a stranger.
v1::Refusal StrangersRefusal(const Caller& caller);

// Judges the first message of a stream. Sets `caller` and `welcome`, or returns why not; the stream lives on
// either way, and another Hello may follow.
std::optional<v1::Refusal> Greet(const Context& context, const v1::Hello& hello,
                                 std::optional<Caller>* caller, v1::Welcome* welcome);

// A refusal that names a reason and a message only. The message is escaped: it may repeat what a client said.
v1::Refusal MakeRefusal(v1::Refusal::Reason reason, const std::string& message);

// The shard ends a stream with these: it got no Hello for too long; its client does not read while memory is
// short.
absl::Status NoHello(const Context& context);
absl::Status NotReading(const Context& context);

// Refuses a Hello whose frame has other fields. `request` loses its Hello.
template <class Frame>
std::optional<v1::Refusal> NotAlone(Frame& request) {
  request.head.clear_hello();
  request.head.DiscardUnknownFields();  // of a later feature level, for those who know them
  if (request.head.ByteSizeLong() == 0 && request.keys.empty() && request.values.empty()) return std::nullopt;
  return MakeRefusal(
      v1::Refusal::MALFORMED,
      "hello: its frame has other fields too; send it alone and these after it: nothing of the "
      "frame was taken");
}

// Asks the segments here whether the caller's session is over. `tell` runs once, maybe before this returns.
void AskWhetherOver(Context& context, const Caller& caller,
                    std::function<void(const std::optional<v1::Refusal>&)> tell);

// Refuses every request for now: the shard is stopping, or has no map, or knows an older list of tables than
// the sender (then it also asks for the newer one).
std::optional<v1::Refusal> NotNow(Context& context, const View& view, CatalogueVersion senders);

}  // namespace paceline::shard
