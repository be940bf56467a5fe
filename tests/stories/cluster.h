#pragma once

#include <deque>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "libs/base/feature_level.h"
#include "libs/log/table_codec.h"
#include "services/coordinator/metadata/snapshots/test_snapshot_files.h"
#include "services/coordinator/store/memory_store.h"
#include "tests/stories/node.h"

namespace paceline::stories {

// The cluster of a story: shards, the real coordinator, and clients that do what the story says. Nothing is
// random, and time passes only where the story says so.
class Cluster final : World, coordinator::ShardCaller, coordinator::Probe {
 public:
  // Carries out one line of a story; what happened.
  std::string Run(const std::string& line);

 private:
  using Words = std::vector<std::string>;
  struct Client {
    SessionId session;
    JobId job;
    std::string secret;
    Clock clock = 0;
    clock::LineCounts numbers;
    std::deque<log::Part> parts;  // that are not committed
  };
  struct Message {
    std::string from, to, text;
    std::function<void()> deliver, lost;
  };

  // -- what a story may say --
  void Begin(const Words& words);
  void Open(const Words& words);
  void MakeTable(const Words& words);
  void Join(const Words& words);
  void Push(const Words& words);
  void SendAgain(const Words& words);
  void Tick(const Words& words);
  void Read(const Words& words);
  void Start(const Words& words);
  void Pass(const Words& words);
  void AskHandOver(const Words& words);
  void TakeSnapshot(const Words& words);
  void Restore(const Words& words);
  void ShowState(const Words& words);
  void SendPart(const std::string& client, const log::Part& part);

  // -- messages --
  void Send(const std::string& from, const std::string& to, const std::string& text,
            std::function<void()> deliver, std::function<void()> lost = nullptr) override;
  void Say(const std::string& what) override;
  bool Reaches(const std::string& from, const std::string& to) const override;
  Node* At(const ring::Member& member) override;
  void ToCoordinator(Node& from, v1::ConfigWish wish) override;
  Node* Find(const std::string& name);         // its newest start
  Node& Primary() { return *Find(primary_); }  // by the coordinator's map
  void Deliver();

  // -- calls of the coordinator --
  // `visit` makes the answer, and describes it.
  template <class Reply, class Done>
  void Call(const std::string& address, const std::string& what, Done done,
            std::function<std::string(Node&, Reply&)> visit);
  void Install(ShardId, const std::string&, v1::InstallRequest, InstallDone) override;
  void MakeChange(ShardId, const std::string&, v1::Change, ChangeDone) override;
  // What the node's primary does, and what it says.
  std::string ChangeSession(log::Primary& primary, const v1::Change& change, v1::ChangeReply& reply) const;
  std::string Load(log::Primary& primary, const v1::Change::LoadJob& load, JobId job, v1::ChangeReply& reply);
  std::string Cut(log::Primary& primary, const v1::Change::TakeCut& cut, JobId job, v1::ChangeReply& reply);
  void Fence(ShardId, const std::string&, v1::FenceRequest, FenceDone) override;
  void Recruit(ShardId, const std::string&, v1::RecruitRequest, RecruitDone) override;
  void HandOver(ShardId, const std::string&, v1::HandOverRequest, HandOverDone) override;
  void Identify(ShardId, const std::string&, v1::IdentifyRequest, IdentifyDone) override;
  void EmptyFolder(ShardId, const std::string&, v1::EmptyFolderRequest, EmptyFolderDone) override {}
  void MapChanged(const v1::Map& map) override;

  absl::Time begun_ = clock.now;  // the end of what was done quietly
  absl::Time told_ = clock.now;   // the time of the last line
  world::SplitMix64 random_{1};
  coordinator::FilesAtOnce files_;
  std::unique_ptr<coordinator::Store> store_;
  std::unique_ptr<coordinator::CoordinatorCore> core_;
  std::vector<std::unique_ptr<Node>> nodes_;  // every start of each
  std::deque<Message> messages_;
  std::map<std::pair<std::string, std::string>, std::string> said_;  // last, in this line of the story
  std::set<std::pair<std::string, std::string>> held_;               // ways on which messages wait
  std::set<std::pair<std::string, std::string>> cut_off_;            // ways on which they are lost
  uint64_t epoch_ = 0;                                               // that the coordinator has committed
  std::string primary_;
  std::map<std::string, Client> clients_;
  std::map<std::pair<std::string, Node*>, std::shared_ptr<log::AckSink>> sinks_;
  std::map<std::string, std::shared_ptr<const log::TableInfo>> tables_;
  std::set<uint64_t> keys_;
  std::map<std::string, std::vector<table::CopiedRows>> cuts_;  // by the snapshot's folder
  std::string out_;
};

}  // namespace paceline::stories
