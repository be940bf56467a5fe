#pragma once

#include <optional>
#include <string>

#include "libs/base/feature_level.h"
#include "libs/base/ids.h"
#include "paceline/v1/shard.pb.h"
#include "services/shard/shard.h"

namespace paceline::shard {

// Who speaks on a stream, from its Hello.
struct Caller {
  JobId job;
  SessionId session;
};

// Judges the first message of a stream. Sets `caller` and `welcome`, or returns why not; the stream lives on
// either way, and another Hello may follow.
std::optional<v1::Refusal> Greet(const Shard& shard, const v1::Hello& hello, std::optional<Caller>* caller,
                                 v1::Welcome* welcome);

// A refusal that names a reason and a message only.
v1::Refusal MakeRefusal(v1::Refusal::Reason reason, std::string message);

// Why no request can be taken now, whatever it asks: the shard is stopping, or has no map, or knows an older
// list of tables than the sender (then it also asks for the newer one).
std::optional<v1::Refusal> NotNow(Shard& shard, const Shard::View& view, CatalogueVersion senders);

}  // namespace paceline::shard
