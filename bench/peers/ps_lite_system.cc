#include "bench/peers/ps_lite_system.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/peers/processes.h"
#include "libs/base/status.h"

#ifndef PACELINE_PS_LITE_DRIVER_SOURCES
#error "PACELINE_PS_LITE_DRIVER_SOURCES is the folder of the driver's sources"
#endif

namespace paceline::bench::peers {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(30);

// Runs a shell's command. An error with its output if it fails.
absl::Status RunCommand(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "re");
  if (pipe == nullptr) return absl::ErrnoToStatus(errno, command);
  std::string output;
  std::array<char, 4096> buffer;
  for (size_t n = 0; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) output.append(buffer.data(), n);
  if (pclose(pipe) == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("peers: '", command, "' failed:\n", output));
}

std::string Quoted(const std::filesystem::path& path) {
  std::string out = "'";
  for (const char c : path.string()) c == '\'' ? out.append("'\\''") : out.append(1, c);
  return out + "'";
}

std::filesystem::path CacheFolder() {
  const char* home = std::getenv("HOME");
  const std::filesystem::path parent =
      home == nullptr ? std::filesystem::temp_directory_path() : std::filesystem::path(home) / ".cache";
  return parent / "paceline" / "ps-lite-driver";
}

class PsLiteCluster final : public PsLite {
 public:
  PsLiteCluster(tool::Supervisor& supervisor, const std::filesystem::path& folder, const Data& data,
                PsLiteRows rows)
      : processes_(supervisor, folder), data_(data), rows_(rows) {}

  absl::Status Start(const std::filesystem::path& driver) {
    ABSL_ASSIGN_OR_RETURN(control_, Control::Listen(processes_.folder() / "worker"));
    ABSL_ASSIGN_OR_RETURN(const int port, FreePort());
    const auto start = [&](const std::string& role) {
      return processes_.Start(
          role, {driver.string(), role, absl::StrCat(port), absl::StrCat(Keys()), absl::StrCat(Values()),
                 rows_ == PsLiteRows::kFlat ? "flat" : "map", control_->path().string()});
    };
    ABSL_RETURN_IF_ERROR(start("scheduler").status());
    ABSL_ASSIGN_OR_RETURN(server_, start("server"));
    ABSL_ASSIGN_OR_RETURN(worker_, start("worker"));
    ABSL_RETURN_IF_ERROR(control_->Accept(processes_, kStartTimeout));
    return control_->ReadLine(processes_, kStartTimeout).status();
  }

  std::string name() const override { return rows_ == PsLiteRows::kFlat ? "ps-lite flat" : "ps-lite map"; }
  bool Takes(const Data&, const Work&) const override { return true; }

  absl::Status Touch() override { return Ask("touch").status(); }

  absl::StatusOr<Turn> Run(Op op, const Work& work, uint64_t first, absl::Duration duration) override {
    std::filesystem::path file = work.in_file;
    if (data_.dense) {
      file = processes_.folder() / "only-key";
      ABSL_RETURN_IF_ERROR(WriteNumbers<uint64_t>(file, {0}));
    }
    ABSL_ASSIGN_OR_RETURN(
        const std::vector<double> numbers,
        Ask(absl::StrCat("run ", NameOf(op), " ", file.string(), " ", data_.dense ? 1 : work.batch, " ",
                         work.outstanding, " ", first, " ", absl::ToDoubleSeconds(duration))));
    if (numbers.size() != 2 || numbers[0] < 1)
      return absl::InternalError("peers: ps-lite's worker made no request");
    Turn turn{.seconds = numbers[1], .us = std::vector<float>(static_cast<size_t>(numbers[0]))};
    ABSL_RETURN_IF_ERROR(control_->ReadNumbers(absl::MakeSpan(turn.us)));
    return turn;
  }

  absl::StatusOr<uint64_t> WrongRows(const std::vector<uint32_t>& pushes) override {
    std::vector<float> expected;
    for (uint64_t key = 0; key < Keys(); ++key) expected.push_back(1.0f + static_cast<float>(pushes[key]));
    const std::filesystem::path file = processes_.folder() / "expected";
    ABSL_RETURN_IF_ERROR(WriteNumbers(file, expected));
    ABSL_ASSIGN_OR_RETURN(const std::vector<double> numbers, Ask(absl::StrCat("check ", file.string())));
    if (numbers.size() != 1) return absl::InternalError("peers: ps-lite's worker did not check its rows");
    return static_cast<uint64_t>(numbers[0]);
  }

  absl::StatusOr<Epoch> TrainEpoch(const std::filesystem::path& file) override {
    ABSL_ASSIGN_OR_RETURN(const std::vector<double> numbers, Ask(absl::StrCat("epoch ", file.string())));
    if (numbers.size() != 2) return absl::InternalError("peers: ps-lite's worker did not train");
    return Epoch{.seconds = numbers[0], .loss = numbers[1]};
  }

  pid_t client_process() const override { return worker_; }
  pid_t server_process() const override { return server_; }

 private:
  // A dense tensor is one key.
  uint64_t Keys() const { return data_.dense ? 1 : data_.rows; }
  uint64_t Values() const { return data_.dense ? data_.rows * data_.dim : data_.dim; }

  // The numbers of an answer.
  absl::StatusOr<std::vector<double>> Ask(const std::string& line) {
    ABSL_RETURN_IF_ERROR(control_->Send(line));
    return control_->ReadAnswer(processes_, "ps-lite's worker");
  }

  Processes processes_;
  const Data data_;
  const PsLiteRows rows_;
  std::unique_ptr<Control> control_;
  pid_t server_ = 0;
  pid_t worker_ = 0;
};

}  // namespace

absl::Status WriteBatches(const std::vector<lr::Batch>& batches, const std::filesystem::path& file) {
  std::ofstream out(file, std::ios::binary);
  const auto write = [&]<typename T>(const T* values, size_t size) {
    out.write(reinterpret_cast<const char*>(values), static_cast<std::streamsize>(size * sizeof(T)));
  };
  for (const lr::Batch& batch : batches) {
    const uint64_t keys = batch.keys.size();
    write(&keys, 1);
    write(batch.keys.data(), keys);
    write(batch.places.data(), batch.places.size());
    write(batch.labels.data(), batch.labels.size());
  }
  out.close();
  return out ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("peers: cannot write ", file.string()));
}

absl::StatusOr<std::filesystem::path> BuildPsLiteDriver(const std::filesystem::path& ps_lite) {
  const std::filesystem::path sources = PACELINE_PS_LITE_DRIVER_SOURCES;
  const std::filesystem::path folder = CacheFolder();
  ABSL_RETURN_IF_ERROR(
      RunCommand(absl::StrCat("cmake -S ", Quoted(sources), " -B ", Quoted(folder),
                              " -DPS_LITE_DIR=", Quoted(std::filesystem::absolute(ps_lite)))));
  ABSL_RETURN_IF_ERROR(
      RunCommand(absl::StrCat("cmake --build ", Quoted(folder), " --target ps_lite_driver")));
  return folder / "ps_lite_driver";
}

absl::StatusOr<std::unique_ptr<PsLite>> StartPsLite(tool::Supervisor& supervisor,
                                                    const std::filesystem::path& driver,
                                                    const std::filesystem::path& folder, const Data& data,
                                                    PsLiteRows rows) {
  auto system = std::make_unique<PsLiteCluster>(supervisor, folder, data, rows);
  ABSL_RETURN_IF_ERROR(system->Start(driver));
  return system;
}

}  // namespace paceline::bench::peers
