#include "libs/world/soon.h"

#include <algorithm>
#include <utility>

namespace paceline::world {
namespace {

Soon*& OfThisThread() {
  static thread_local Soon* mine = nullptr;
  return mine;
}

}  // namespace

Soon::Soon() {
  OfThisThread() = this;
}

Soon::~Soon() {
  OfThisThread() = nullptr;
  KickAll();
}

void Soon::Kick(std::shared_ptr<Kickable> stream) {
  Soon* soon = OfThisThread();
  if (soon == nullptr) return stream->Kick();
  std::vector<std::shared_ptr<Kickable>>& streams = soon->streams_;
  if (std::find(streams.begin(), streams.end(), stream) == streams.end())
    streams.push_back(std::move(stream));
}

void Soon::Taken() {
  if (!empty() && ++events_ >= kEvents) KickAll();
}

void Soon::KickAll() {
  events_ = 0;
  // A kick may put off others.
  for (const std::shared_ptr<Kickable>& stream : std::exchange(streams_, {})) stream->Kick();
}

uint64_t Soon::Pauses() {
  const Soon* soon = OfThisThread();
  return soon == nullptr ? 0 : soon->pauses_;
}

}  // namespace paceline::world
