#include "bench/peers/paceline_system.h"

#include <unistd.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "tools/paceline/data_folder.h"
#include "tools/paceline/local_cluster.h"

namespace paceline::bench::peers {
namespace {

class Ours final : public System {
 public:
  Ours(const Data& data, Kind kind) : data_(data), kind_(kind) {}
  ~Ours() override {
    client_.reset();
    if (cluster_.has_value()) cluster_->Stop();
  }

  absl::Status Start(tool::Supervisor& supervisor) {
    ABSL_ASSIGN_OR_RETURN(folder_, tool::DataFolder::Open(""));  // temporary: the shard has no disk
    const std::string sockets = IsNear(kind_) ? (folder_->path() / "sockets").string() : "";
    cluster_.emplace(supervisor, *folder_,
                     tool::LocalClusterOptions{.programs = tool::FolderOfPrograms(), .socket_dir = sockets});
    ABSL_RETURN_IF_ERROR(cluster_->Start());
    ABSL_ASSIGN_OR_RETURN(client_, PacelineClient::Connect(cluster_->address(), sockets, data_, kind_));
    return absl::OkStatus();
  }

  std::string name() const override { return absl::StrCat("ours, ", NameOf(kind_)); }
  bool Takes(const Data& data, const Work&) const override { return IsRanged(kind_) || !data.dense; }
  absl::Status Touch() override { return client_->Touch(); }
  absl::StatusOr<Turn> Run(Op op, const Work& work, uint64_t first, absl::Duration duration) override {
    return client_->Run(op, work, first, duration);
  }
  absl::StatusOr<uint64_t> WrongRows(const std::vector<uint32_t>& pushes) override {
    return client_->WrongRows(pushes);
  }

  pid_t client_process() const override { return getpid(); }
  pid_t server_process() const override {
    const tool::Child* shard = cluster_->AnyShard();
    return shard == nullptr ? 0 : shard->process;
  }

 private:
  const Data data_;
  const Kind kind_;
  std::unique_ptr<tool::DataFolder> folder_;
  std::optional<tool::LocalCluster> cluster_;
  std::unique_ptr<PacelineClient> client_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<System>> StartPaceline(tool::Supervisor& supervisor, const Data& data,
                                                      Kind kind) {
  auto ours = std::make_unique<Ours>(data, kind);
  ABSL_RETURN_IF_ERROR(ours->Start(supervisor));
  return ours;
}

}  // namespace paceline::bench::peers
