#include "tools/paceline/command_line.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace paceline::tool {
namespace {

// How many letters have to be put in, left out, changed, or swapped with their neighbour, to make `b` of `a`.
size_t Distance(const std::string& a, const std::string& b) {
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::vector<const CLI::App*> Subcommands(const CLI::App& app) {
  std::vector<const CLI::App*> named;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!sub->get_name().empty()) named.push_back(sub);
  }
  return named;
}

// Adds those of the command, and of its groups of options.
void AddOptions(const CLI::App& app, std::vector<std::string>& words) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      std::string word = absl::StrCat("--", name);
      if (std::ranges::find(words, word) == words.end()) words.push_back(std::move(word));
    }
  }
  for (const CLI::App* group : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (group->get_name().empty()) AddOptions(*group, words);
  }
}

std::vector<std::string> WordsOf(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::App* sub : Subcommands(app)) words.push_back(sub->get_name());
  AddOptions(app, words);
  return words;
}

// The last subcommand that was recognised.
const CLI::App& Parsed(const CLI::App& app) {
  for (const CLI::App* sub : Subcommands(app)) {
    if (sub->parsed()) return Parsed(*sub);
  }
  return app;
}

void AddCommands(const CLI::App& app, const std::string& path, std::vector<std::string>& known,
                 std::string& cases) {
  absl::StrAppend(&cases, "    '", path, "') words='", absl::StrJoin(WordsOf(app), " "), "' ;;\n");
  for (const CLI::App* sub : Subcommands(app)) {
    const std::string sub_path = absl::StrCat(path, " ", sub->get_name());
    known.push_back(absl::StrCat("'", sub_path, "'"));
    AddCommands(*sub, sub_path, known, cases);
  }
}

}  // namespace

std::string Closest(const std::string& word, const std::vector<std::string>& candidates) {
  std::string closest;
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = Distance(word, candidate);
    if (distance >= least) continue;
    least = distance;
    closest = candidate;
  }
  return closest;
}

std::string DidYouMean(const CLI::App& app) {
  const CLI::App& command = Parsed(app);
  for (const std::string& word : app.remaining(true)) {
    const std::string name = word.substr(0, word.find('='));
    const std::string closest = Closest(name, WordsOf(command));
    if (!closest.empty() && closest != name) return absl::StrCat("did you mean `", closest, "`?");
  }
  return "";
}

std::string BashCompletion(const CLI::App& app) {
  std::vector<std::string> known;
  std::string cases;
  AddCommands(app, "", known, cases);
  return absl::StrCat(
      "# Completion of paceline's subcommands and options for bash. Made by `paceline completion bash`:\n"
      "#   source <(paceline completion bash)\n"
      "_paceline() {\n"
      "  local command='' words='' word\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    case \"$command $word\" in\n      ",
      absl::StrJoin(known, "|"),
      ") command=\"$command $word\" ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$command\" in\n",
      cases,
      "  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
      "}\n"
      "complete -o bashdefault -o default -F _paceline paceline\n");
}

CLI::App* AddCompletion(CLI::App& app) {
  CLI::App* completion =
      app.add_subcommand("completion", "Print a script with which a shell completes commands");
  completion->require_subcommand(1);
  completion->add_subcommand("bash", "For bash: `source <(paceline completion bash)`");
  return completion;
}

}  // namespace paceline::tool
