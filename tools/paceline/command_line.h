#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

// What is derived from the program's commands: completion for shells, and help with misspelt words.
namespace paceline::tool {

// The candidate that `word` was most likely meant to be; empty: none is close.
std::string Closest(const std::string& word, const std::vector<std::string>& candidates);

// After a command line that could not be parsed: "did you mean `status`?" for a word that is neither a
// subcommand nor an option; empty: nothing to say.
std::string DidYouMean(const CLI::App& app);

// A script for bash that completes subcommands and options.
std::string BashCompletion(const CLI::App& app);

// Adds `paceline completion`.
CLI::App* AddCompletion(CLI::App& app);

}  // namespace paceline::tool
