#include "services/coordinator/store/etcd_store.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libs/base/status.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/deadline.h"
#include "libs/rpc/status.h"
#include "libs/world/real_clock.h"
#include "store/etcd_rpc.grpc.pb.h"

namespace paceline::coordinator {
namespace {

namespace pb = ::etcdserverpb;

constexpr absl::string_view kScheme = "etcd://";
// etcd takes 128 operations per transaction, and counts nested ones along the path from the outermost to the
// innermost: with 32 per level, four levels hold a million.
constexpr size_t kOperationsPerLevel = 32;
// The time limit for a connection to an etcd that was seen to be away.
constexpr absl::Duration kAwayTimeout = absl::Milliseconds(300);
// Revisions older than at least this many commits of ours are compacted.
constexpr int kCompactEvery = 1024;

bool IsHostAndPort(absl::string_view text) {
  const size_t colon = text.rfind(':');
  uint32_t port = 0;
  return colon != absl::string_view::npos && colon > 0 && absl::SimpleAtoi(text.substr(colon + 1), &port) &&
         port > 0 && port <= 65535;
}

// The end of the range of all keys that start with `prefix`, which must contain a byte other than 0xff.
std::string EndOfPrefix(std::string prefix) {
  while (prefix.back() == '\xff') prefix.pop_back();
  prefix.back() = static_cast<char>(prefix.back() + 1);
  return prefix;
}

// Arranges `operations` as a tree of transactions without conditions.
void Nest(std::vector<pb::RequestOp> operations, google::protobuf::RepeatedPtrField<pb::RequestOp>& into) {
  while (operations.size() > kOperationsPerLevel) {
    std::vector<pb::RequestOp> groups;
    for (size_t i = 0; i < operations.size(); ++i) {
      if (i % kOperationsPerLevel == 0) groups.emplace_back();
      *groups.back().mutable_request_txn()->add_success() = std::move(operations[i]);
    }
    operations = std::move(groups);
  }
  for (pb::RequestOp& operation : operations) *into.Add() = std::move(operation);
}

// Translates an error from etcd, or from the connection to it.
absl::Status Translated(const grpc::Status& status) {
  const std::string words = status.error_message();
  const auto has = [&](absl::string_view part) { return words.find(std::string(part)) != std::string::npos; };
  if (has("request is too large") || has("message larger than max")) {
    return absl::InvalidArgumentError(
        absl::StrCat("store: etcd refuses a commit of this size (", words,
                     "); start etcd with a larger --max-request-bytes, 20971520 is enough for all"));
  }
  if (has("space exceeded")) {
    return absl::ResourceExhaustedError(
        absl::StrCat("store: ", words, "; compact and defragment etcd, then disarm its alarm"));
  }
  if (status.error_code() == grpc::StatusCode::DATA_LOSS) {
    return absl::DataLossError(absl::StrCat("store: ", words));
  }
  return absl::UnavailableError(words);
}

class EtcdStore final : public Store {
 public:
  explicit EtcdStore(EtcdOptions options) : options_(std::move(options)) {
    grpc::ChannelArguments arguments = rpc::ControlPlaneArguments();
    arguments.SetMaxReceiveMessageSize(-1);  // a listing returns all entries at once
    for (const std::string& endpoint : options_.endpoints) {
      channels_.push_back(grpc::CreateCustomChannel(endpoint, grpc::InsecureChannelCredentials(), arguments));
      stubs_.push_back(pb::KV::NewStub(channels_.back()));
    }
  }

  absl::StatusOr<std::optional<Entry>> Get(absl::string_view key) const override {
    pb::RangeRequest request;
    request.set_key(Stored(key));
    ABSL_ASSIGN_OR_RETURN(const pb::RangeResponse reply, Read(request));
    return EntryIn(reply);
  }

  absl::StatusOr<std::vector<std::pair<std::string, Entry>>> List(absl::string_view prefix) const override {
    pb::RangeRequest request;
    request.set_key(Stored(prefix));
    request.set_range_end(EndOfPrefix(request.key()));
    ABSL_ASSIGN_OR_RETURN(const pb::RangeResponse reply, Read(request));
    std::vector<std::pair<std::string, Entry>> found;
    for (const pb::KeyValue& pair : reply.kvs()) {
      found.emplace_back(pair.key().substr(options_.prefix.size() + 1), EntryOf(pair));
    }
    return found;
  }

  absl::Status Commit(absl::Span<const Condition> conditions, absl::Span<const Write> writes) override {
    ABSL_RETURN_IF_ERROR(CheckCommit(conditions, writes));
    const pb::TxnRequest request = RequestOf(conditions, writes);
    pb::TxnResponse reply;
    ABSL_RETURN_IF_ERROR(Call(&pb::KV::Stub::Txn, request, reply));
    if (!reply.succeeded()) return FirstThatFails(conditions, reply);
    CompactAfter(reply.header().revision());
    return absl::OkStatus();
  }

 private:
  std::string Stored(absl::string_view key) const { return absl::StrCat(options_.prefix, "/", key); }

  static Entry EntryOf(const pb::KeyValue& pair) {
    return {.value = pair.value(), .version = static_cast<uint64_t>(pair.mod_revision())};
  }
  static std::optional<Entry> EntryIn(const pb::RangeResponse& reply) {
    return reply.kvs().empty() ? std::nullopt : std::optional<Entry>(EntryOf(reply.kvs(0)));
  }

  pb::TxnRequest RequestOf(absl::Span<const Condition> conditions, absl::Span<const Write> writes) const {
    pb::TxnRequest request;
    for (const Condition& condition : conditions) {
      if (condition.version.has_value()) {
        pb::Compare& compare = *request.add_compare();
        compare.set_key(Stored(condition.key));
        compare.set_target(pb::Compare::MOD);
        compare.set_mod_revision(static_cast<int64_t>(*condition.version));
      }
      if (condition.value.has_value()) {
        pb::Compare& compare = *request.add_compare();
        compare.set_key(Stored(condition.key));
        compare.set_target(pb::Compare::VALUE);
        compare.set_value(*condition.value);
      }
      // Shows which condition failed.
      request.add_failure()->mutable_request_range()->set_key(Stored(condition.key));
    }
    std::vector<pb::RequestOp> operations;
    for (const Write& write : writes) {
      pb::RequestOp& operation = operations.emplace_back();
      if (write.value.has_value()) {
        operation.mutable_request_put()->set_key(Stored(write.key));
        operation.mutable_request_put()->set_value(*write.value);
      } else {
        operation.mutable_request_delete_range()->set_key(Stored(write.key));
      }
    }
    Nest(std::move(operations), *request.mutable_success());
    return request;
  }

  static absl::Status FirstThatFails(absl::Span<const Condition> conditions, const pb::TxnResponse& reply) {
    for (size_t i = 0; i < conditions.size() && i < static_cast<size_t>(reply.responses_size()); ++i) {
      ABSL_RETURN_IF_ERROR(
          CheckCondition(conditions[i], EntryIn(reply.responses(static_cast<int>(i)).response_range())));
    }
    return absl::FailedPreconditionError("store: a condition of the commit does not hold");
  }

  // A call that changes nothing may be tried at every member in turn.
  absl::StatusOr<pb::RangeResponse> Read(const pb::RangeRequest& request) const {
    pb::RangeResponse reply;
    absl::Status status;
    for (size_t i = 0; i < stubs_.size(); ++i) {
      status = Call(&pb::KV::Stub::Range, request, reply);
      if (!absl::IsUnavailable(status)) break;
    }
    if (!status.ok()) return status;
    return reply;
  }

  template <class Request, class Reply>
  absl::Status Call(grpc::Status (pb::KV::Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                    const Request& request, Reply& reply) const {
    if (world::MonotonicNow() < held_off_until_) return last_failure_;
    grpc::ClientContext context;
    // Makes the call wait for a connection: gRPC connects only while a call waits.
    context.set_wait_for_ready(true);
    const bool known_away = failures_ > 0 && channels_[current_]->GetState(true) != GRPC_CHANNEL_READY;
    context.set_deadline(
        rpc::After(known_away ? std::min(kAwayTimeout, options_.call_timeout) : options_.call_timeout));
    const grpc::Status status = ((*stubs_[current_]).*method)(&context, request, &reply);
    if (status.ok()) {
      failures_ = 0;
      return absl::OkStatus();
    }
    absl::Status translated = Translated(status);
    if (!absl::IsUnavailable(translated)) return translated;
    return Failed(translated);
  }

  // Moves on to the next member, and notes since when no member has answered.
  absl::Status Failed(const absl::Status& status) const {
    const absl::Time now = world::MonotonicNow();
    if (failures_ == 0) failing_since_ = now;
    failures_ += 1;
    const absl::Duration failing = absl::Trunc(now - failing_since_, absl::Milliseconds(100));
    const std::string since =
        failures_ == 1 ? "" : absl::StrCat(", for ", absl::FormatDuration(failing), " now");
    last_failure_ = absl::UnavailableError(
        absl::StrCat("store: etcd at ", options_.endpoints[current_], " does not answer", since, ": ",
                     status.message(), "; it must run and be reached, with a majority of its members"));
    if (failures_ >= static_cast<int>(stubs_.size())) held_off_until_ = now + options_.hold_off;
    current_ = (current_ + 1) % stubs_.size();
    return last_failure_;
  }

  // Compacts the history of keys. Best effort: another coordinator may have done it.
  void CompactAfter(int64_t revision) {
    if (commits_++ % kCompactEvery != 0) return;
    const int64_t oldest = std::exchange(next_compaction_, revision);
    if (oldest == 0) return;
    pb::CompactionRequest request;
    request.set_revision(oldest);
    pb::CompactionResponse reply;
    grpc::ClientContext context;
    context.set_deadline(rpc::After(options_.call_timeout));
    (void)stubs_[current_]->Compact(&context, request, &reply);
  }

  const EtcdOptions options_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;  // in the order of the endpoints
  std::vector<std::unique_ptr<pb::KV::Stub>> stubs_;      // the same
  int commits_ = 0;
  int64_t next_compaction_ = 0;
  // The state of the connection to etcd; not part of what is stored.
  mutable size_t current_ = 0;
  mutable int failures_ = 0;  // in a row
  mutable absl::Time failing_since_;
  mutable absl::Time held_off_until_ = absl::InfinitePast();
  mutable absl::Status last_failure_;
};

}  // namespace

absl::StatusOr<EtcdOptions> ParseEtcdUrl(absl::string_view url) {
  const absl::Status wrong = absl::InvalidArgumentError(
      absl::StrCat("'", url, "'; expected etcd://HOST:PORT[,HOST:PORT…][/PREFIX], as etcd://127.0.0.1:2379"));
  absl::string_view rest = url;
  if (!absl::ConsumePrefix(&rest, kScheme)) return wrong;
  EtcdOptions options;
  const std::vector<std::string> parts = absl::StrSplit(rest, absl::MaxSplits('/', 1));
  if (parts.size() == 2) {
    options.prefix = std::string(absl::StripSuffix(parts[1], "/"));
    if (options.prefix.empty()) return wrong;
  }
  options.endpoints = absl::StrSplit(parts[0], ',');
  if (!std::all_of(options.endpoints.begin(), options.endpoints.end(), IsHostAndPort)) return wrong;
  return options;
}

std::unique_ptr<Store> MakeEtcdStore(EtcdOptions options) {
  return std::make_unique<EtcdStore>(std::move(options));
}

}  // namespace paceline::coordinator
