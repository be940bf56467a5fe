#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace paceline::tool {

// Text in columns that are as wide as their content, for terminals.
class Columns {
 public:
  // A heading that begins with '>' makes its column right-aligned.
  explicit Columns(std::vector<std::string> headings);

  // As many cells as headings. UTF-8; control characters are shown as '?', and long cells are cut.
  void Add(std::vector<std::string> cells);

  // A line for the headings and one for each row, indented by two spaces.
  std::string Text() const;

 private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> lines_;
};

}  // namespace paceline::tool
