#include "tools/paceline/columns.h"

#include <algorithm>

#include "libs/base/text.h"

namespace paceline::tool {
namespace {

constexpr size_t kWidthMax = 72;

bool BeginsCharacter(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
}

// Characters, not bytes.
size_t Width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), BeginsCharacter));
}

std::string Shown(const std::string& text) {
  std::string shown;
  size_t width = 0;
  for (const char c : Escaped(text)) {
    if (BeginsCharacter(c) && ++width > kWidthMax) return shown + "…";
    shown += c;
  }
  return shown;
}

}  // namespace

Columns::Columns(std::vector<std::string> headings) {
  for (std::string& heading : headings) {
    right_.push_back(heading.starts_with('>'));
    if (right_.back()) heading.erase(0, 1);
  }
  lines_.push_back(std::move(headings));
}

void Columns::Add(std::vector<std::string> cells) {
  cells.resize(right_.size());
  for (std::string& cell : cells) cell = Shown(cell);
  lines_.push_back(std::move(cells));
}

std::string Columns::Text() const {
  std::vector<size_t> widths(right_.size());
  for (const auto& line : lines_) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], Width(line[i]));
  }
  std::string text;
  for (const auto& line : lines_) {
    for (size_t i = 0; i < line.size(); ++i) {
      const std::string padding(widths[i] - Width(line[i]), ' ');
      text += "  " + (right_[i] ? padding + line[i] : line[i] + padding);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

}  // namespace paceline::tool
