#include "bench/soak/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace paceline::bench {

absl::StatusOr<std::unique_ptr<Journal>> Journal::Create(const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot make the journal ", path));
  return std::unique_ptr<Journal>(new Journal(file));
}

Journal::~Journal() {
  close(file_);
}

// A journal that says less than what happened would make a lost update look like none.
void Journal::Write(const std::string& line) const {
  if (write(file_, line.data(), line.size()) == static_cast<ssize_t>(line.size())) return;
  std::perror("the journal cannot be written");
  std::_Exit(1);
}

uint64_t Journal::Begin(uint64_t sum) {
  const uint64_t push = ++pushes_;
  Write(absl::StrCat("push ", push, " ", sum, "\n"));
  return push;
}

void Journal::Acknowledged(uint64_t push) {
  Write(absl::StrCat("ack ", push, "\n"));
}

absl::StatusOr<JournalSums> SumsOf(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read the journal ", path));
  JournalSums sums;
  std::map<uint64_t, uint64_t> open;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (file.eof()) break;
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    uint64_t push = 0;
    uint64_t sum = 0;
    bool known = words.size() >= 2 && absl::SimpleAtoi(words[1], &push);
    if (known && words[0] == "push" && words.size() == 3 && absl::SimpleAtoi(words[2], &sum)) {
      known = open.emplace(push, sum).second;
      ++sums.pushes;
      sums.unacknowledged += sum;
    } else if (const auto it = open.find(push); known && words[0] == "ack" && it != open.end()) {
      sums.unacknowledged -= it->second;
      sums.acknowledged += it->second;
      open.erase(it);
    } else {
      known = false;
    }
    if (!known) return absl::DataLossError(absl::StrCat(path, ", line ", number, ": '", line, "'"));
  }
  return sums;
}

}  // namespace paceline::bench
