// Messages, and the calls of the coordinator.
#include <algorithm>

#include "absl/strings/str_replace.h"
#include "libs/wire/map_codec.h"
#include "tests/stories/cluster.h"

namespace paceline::stories {
namespace {

// They join in the order of their names.
std::string NameOf(const v1::Member& member) {
  return std::string(1, static_cast<char>('a' + member.shard()));
}

}  // namespace

void Cluster::Say(const std::string& what) {
  if (std::exchange(told_, clock.now) != clock.now) {
    absl::StrAppend(&out_, "after ", absl::ToInt64Milliseconds(clock.now - begun_), " ms:\n");
  }
  std::string told = what;
  for (const auto& node : nodes_) absl::StrReplaceAll({{ring::ToString(node->self), node->name}}, &told);
  absl::StrAppend(&out_, told, "\n");
}

void Cluster::Send(const std::string& from, const std::string& to, const std::string& text,
                   std::function<void()> deliver, std::function<void()> lost) {
  messages_.push_back({from, to, text, std::move(deliver), std::move(lost)});
}

bool Cluster::Reaches(const std::string& from, const std::string& to) const {
  return !cut_off_.contains({from, to});
}

Node* Cluster::Find(const std::string& name) {
  const auto it =
      std::ranges::find_if(nodes_.rbegin(), nodes_.rend(), [&](auto& n) { return n->name == name; });
  return it == nodes_.rend() ? nullptr : it->get();
}

Node* Cluster::At(const ring::Member& member) {
  return std::ranges::find_if(nodes_, [&](auto& node) { return node->self == member; })->get();
}

void Cluster::Deliver() {
  for (size_t i = 0; i < messages_.size();) {
    if (held_.contains({messages_[i].from, messages_[i].to})) {
      ++i;
      continue;
    }
    const Message message = std::move(messages_[i]);
    messages_.erase(messages_.begin() + static_cast<ptrdiff_t>(i));
    const std::string told = absl::StrCat(message.from, " -> ", message.to, ": ", message.text);
    const Node* to = Find(message.to);
    const bool arrives = Reaches(message.from, message.to) && (to == nullptr || to->up);
    const bool between_shards = Find(message.from) != nullptr && to != nullptr;
    std::string& before = said_[{message.from, message.to}];
    const bool again = before == told && (between_shards || !arrives);
    if (!message.text.empty() && !again) Say(arrives ? told : told + " (lost)");
    if (!message.text.empty()) before = told;
    if (arrives) message.deliver();
    if (!arrives && message.lost) message.lost();
    for (const auto& node : nodes_) node->host.Flush();
    i = 0;
  }
}

void Cluster::ToCoordinator(Node& from, v1::ConfigWish wish) {
  const std::string kind = v1::ConfigWish::Kind_Name(wish.kind());
  std::string whom;
  for (const v1::Member& member : wish.members()) absl::StrAppend(&whom, " ", NameOf(member));
  Send(from.name, kCoordinator, absl::StrCat("I wish ", kind, whom, " in place of epoch ", wish.epoch()),
       [this, &from, wish] {
         v1::ChangeConfigsRequest request;
         request.set_map_version(from.map.version());
         *request.mutable_from() = wire::ToProto(from.self);
         *request.add_wishes() = wish;
         const v1::ChangeConfigsReply reply = core_->ChangeConfigs(request).value();
         const auto& answer = reply.segments(0);
         const std::string text = answer.why_not().empty() ? "" : "no: " + answer.why_not();
         Send(kCoordinator, from.name, text, [&from, answer, reply] {
           from.host.OnConfig(wire::ConfigFromProto(answer.config()), MapVersion(reply.map_version()),
                              from.self, 0);
         });
       });
}

void Cluster::MapChanged(const v1::Map& map) {
  const v1::SegmentConfig& config = map.segments(0);
  if (std::exchange(epoch_, config.epoch()) == config.epoch()) return;
  primary_ = NameOf(config.primary());
  std::vector<std::string> replicas;
  for (const v1::Member& member : config.replicas()) replicas.push_back(NameOf(member));
  Say(absl::StrCat("    ", kCoordinator, " commits epoch ", config.epoch(), ": primary ", primary_,
                   ", replicas ", replicas.empty() ? "none" : absl::StrJoin(replicas, " ")));
}

template <class Reply, class Done>
void Cluster::Call(const std::string& address, const std::string& what, Done done,
                   std::function<std::string(Node&, Reply&)> visit) {
  const std::string shard = address.substr(0, address.find(':'));
  Send(
      kCoordinator, shard, what,
      [this, shard, done, visit] {
        Reply reply;
        const std::string told = visit(*Find(shard), reply);
        const auto fail = [done] { done(absl::UnavailableError("it does not answer")); };
        Send(
            shard, kCoordinator, told, [done, reply] { done(reply); }, fail);
      },
      [done] { done(absl::UnavailableError("it does not answer")); });
}

void Cluster::Install(ShardId, const std::string& address, v1::InstallRequest request, InstallDone done) {
  const Node* there = Find(address.substr(0, 1));
  const bool news = request.map().version() > (there == nullptr ? 0 : there->map.version());
  const std::string what = news ? absl::StrCat("map ", request.map().version()) : "";
  Call<v1::InstallReply>(address, what, done, [request](Node& node, v1::InstallReply& reply) {
    if (request.catalogue().version() > node.catalogue.version()) node.catalogue = request.catalogue();
    v1::Map sent = request.map();
    if (!request.whole_map().empty()) sent.ParseFromString(request.whole_map());
    if (sent.version() > node.map.version()) {
      const auto have = wire::MapFromProto(node.map);  // not before the first
      const ring::SegmentMap map = wire::NextMap(sent, have.ok() ? &*have : nullptr).value();
      node.map = wire::ToProto(map);
      node.host.Configure(map, node.self);
    }
    reply.set_map_version(node.map.version());
    reply.set_catalogue_version(node.catalogue.version());
    return "";
  });
}

void Cluster::MakeChange(ShardId shard, const std::string& address, v1::Change change, ChangeDone done) {
  const SessionId session(change.subject().id());
  const v1::Change::TakeCut& cut = change.cut();
  std::string what = change.has_open()     ? "OPEN " + names.Of(session)
                     : change.has_finish() ? "FINISH " + names.Of(session)
                     : change.has_evict()  ? "EVICT " + names.Of(session)
                     : change.has_load()   ? "load " + change.load().snapshot()
                                           : "";
  if (change.has_join()) {
    what = absl::StrCat("JOIN ", names.Of(session), " at clock ", change.join().start_clock());
  }
  const std::string at = cut.at_once() ? ", at once" : absl::StrCat(" at clock ", cut.clock());
  if (change.has_cut()) what = absl::StrCat("cut ", cut.id(), at);
  if (Primary().self.shard != shard) what.clear();
  Call<v1::ChangeReply>(address, what, done, [this, change](Node& node, v1::ChangeReply& reply) {
    reply.set_map_version(node.map.version());
    if (node.primary() == nullptr) return std::string();
    log::Primary& primary = *node.primary();
    primary.SetNow(clock.now);
    std::string why;
    bool late = false;
    const log::Subject subject = log::SubjectFromProto(change.subject()).value();
    if (!primary.TakeUp({subject, change.number(), change.floor()}, &why, &late)) return "not now: " + why;
    if (change.has_cut()) return Cut(primary, change.cut(), JobId(change.job()), reply);
    if (change.has_load()) return Load(primary, change.load(), JobId(change.job()), reply);
    return ChangeSession(primary, change, reply);
  });
}

std::string Cluster::ChangeSession(log::Primary& primary, const v1::Change& change,
                                   v1::ChangeReply& reply) const {
  std::string why;
  std::optional<Clock> passed;
  const bool committed = primary.Change(change, {}, &why, &passed);
  if (committed) reply.add_committed(0);
  if (passed.has_value()) reply.add_passed()->set_clock(*passed);
  return committed ? "committed" : "not yet: " + why;
}

std::string Cluster::Load(log::Primary& primary, const v1::Change::LoadJob& load, JobId job,
                          v1::ChangeReply& reply) {
  std::string why;
  if (primary.Loaded(job, load.id(), &why)) return reply.add_committed(0), "all is there";
  if (primary.segment().SnapshotsOf(job).loaded >= load.id()) return "not yet: " + why;
  for (const table::CopiedRows& page : cuts_[load.snapshot()]) {
    const auto to = std::ranges::find_if(load.tables(), [&](auto& t) { return t.from() == page.table.v; });
    const auto table = log::TableFromProto(to->to()).value();
    names.tables[table->id.v] = "restored " + table->name;
    EXPECT_TRUE(primary.Take(table, {table->id, page.keys, page.rows}, load.id()).ok());
  }
  EXPECT_TRUE(primary.Take(log::EndLoad{load.id(), job, load.clock()}, {}).ok());
  return "the rows are being loaded";
}

std::string Cluster::Cut(log::Primary& primary, const v1::Change::TakeCut& cut, JobId job,
                         v1::ChangeReply& reply) {
  std::string why;
  std::optional<Clock> passed;
  if (!primary.Change(log::CutWish{cut.id(), job, cut.clock(), cut.at_once(), cut.exact()}, &why, &passed)) {
    if (passed.has_value()) reply.add_passed()->set_clock(*passed);
    return "not yet: " + why;
  }
  v1::SnapshotFile& file = *reply.add_files();
  file.set_name("segment-0");
  file.set_cut(cut.id());
  reply.add_committed(0);
  const std::optional<log::CutCopy> copy = primary.TakeCut(job, cut.id());
  if (!copy.has_value()) return "the file was written before";
  file.set_clock(copy->cut.clock);
  file.set_exact(copy->exact);
  EXPECT_TRUE((*files_.files.Create(cut.snapshot(), file.name()))->Commit().ok());
  std::vector<std::string> told;
  for (table::CopiedRows page; primary.NextOfCut(job, cut.id(), &page).value(); page = {}) {
    if (!page.keys.empty()) told.push_back(Told(names, page.table, page.keys, page.rows, "="));
    cuts_[cut.snapshot()].push_back(page);
  }
  return absl::StrCat("the rows as of record ", copy->lsn.v, " are in a file: ", absl::StrJoin(told, ", "));
}

void Cluster::Fence(ShardId, const std::string& address, v1::FenceRequest request, FenceDone done) {
  const v1::FenceRequest::Segment asked = request.segments(0);
  const std::string what = absl::StrCat("follow nobody of an epoch before ", asked.epoch(),
                                        asked.only_if_silent() ? ", if your primary is silent" : "");
  Call<v1::FenceReply>(address, what, done, [asked](Node& node, v1::FenceReply& reply) {
    const v1::FenceReply::Segment& answer = *reply.add_segments() = node.host.Fence(asked);
    if (!answer.fenced()) return "no: " + answer.why_not();
    return absl::StrCat("so be it; I have record ", answer.lsn(), " of epoch ", answer.lsn_epoch());
  });
}

void Cluster::Recruit(ShardId, const std::string& address, v1::RecruitRequest request, RecruitDone done) {
  const v1::RecruitRequest::Segment asked = request.segments(0);
  const ring::Member learner = wire::MemberFromProto(asked.learner());
  Call<v1::RecruitReply>(address, "let " + NameOf(asked.learner()) + " learn", done,
                         [=](Node& node, auto& reply) {
                           if (node.host.Recruit(Epoch(asked.epoch()), learner)) reply.add_taken(0);
                           return std::string();
                         });
}

void Cluster::HandOver(ShardId, const std::string& address, v1::HandOverRequest request, HandOverDone done) {
  const v1::HandOverRequest::Segment asked = request.segments(0);
  const ring::Member to = wire::MemberFromProto(asked.to());
  Call<v1::HandOverReply>(address, "hand over to " + NameOf(asked.to()), done, [=](Node& node, auto& reply) {
    if (!node.host.HandOver(Epoch(asked.epoch()), to)) return "no";
    reply.add_begun(0);
    return "it is under way";
  });
}

void Cluster::Identify(ShardId, const std::string& address, v1::IdentifyRequest, IdentifyDone done) {
  Call<v1::IdentifyReply>(address, "do you live?", done, [](Node&, v1::IdentifyReply&) { return "yes"; });
}

}  // namespace paceline::stories
