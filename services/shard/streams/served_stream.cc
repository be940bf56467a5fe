#include "services/shard/streams/served_stream.h"

#include <utility>

#include "services/shard/streams/hello.h"

namespace paceline::shard {

ServedStream::ServedStream(Context& context, std::string kind)
    : context_(context), kind_(std::move(kind)), opened_(context.clock().Now()) {
  context_.probe().StreamOpened(kind_);
}

ServedStream::~ServedStream() {
  context_.probe().StreamClosed(kind_);
}

void ServedStream::Attach(std::shared_ptr<world::StreamPort> port) {
  MutexLock lock(&mutex_);
  port_ = std::move(port);
}

std::shared_ptr<world::StreamPort> ServedStream::port() {
  MutexLock lock(&mutex_);
  return port_;
}

void ServedStream::Kick() {
  if (const auto to = port()) to->Kick();
}

void ServedStream::KickSoon() {
  if (const auto to = port()) to->KickSoon();
}

void ServedStream::OnFinished() {
  {
    MutexLock lock(&mutex_);
    finished_ = true;
  }
  Kick();
}

void ServedStream::OnTime(absl::Time now, bool crowded) {
  std::shared_ptr<world::StreamPort> port;
  absl::Status why;
  {
    MutexLock lock(&mutex_);
    if (ended_ || port_ == nullptr) return;
    const bool unread = crowded && Unread(now);
    if (!unread && (greeted_ || now - opened_ <= context_.options().hello_timeout)) return;
    why = unread ? NotReading(context_) : NoHello(context_);
    ended_ = true;
    port = port_;
  }
  port->Close(std::move(why));
}

}  // namespace paceline::shard
