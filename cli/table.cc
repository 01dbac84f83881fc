#include "cli/table.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace numafit::cli {

Terminal Terminal::OfStandardOutput() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool wanted = (no_color == nullptr || *no_color == '\0') &&
                      (term == nullptr || std::strcmp(term, "dumb") != 0);
  return {.color = wanted && ::isatty(STDOUT_FILENO) == 1};
}

std::string Colored(std::string_view text, Tone tone, const Terminal& terminal) {
  if (!terminal.color || tone == Tone::kPlain || text.empty()) return std::string(text);
  const char* code = tone == Tone::kGood      ? "32"
                     : tone == Tone::kCaution ? "33"
                     : tone == Tone::kBad     ? "31"
                                              : "2";
  return std::string("\x1b[") + code + "m" + std::string(text) + "\x1b[0m";
}

std::size_t Width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

std::string AgeText(std::int64_t seconds) {
  constexpr std::int64_t kMinute = 60;
  constexpr std::int64_t kHour = 60 * kMinute;
  constexpr std::int64_t kDay = 24 * kHour;
  if (seconds < 2 * kMinute) return std::to_string(seconds) + " s";
  if (seconds < 2 * kHour) return std::to_string(seconds / kMinute) + " min";
  if (seconds < 2 * kDay) return std::to_string(seconds / kHour) + " h";
  return std::to_string(seconds / kDay) + " d";
}

std::string Table::Render(const Terminal& terminal) const {
  std::vector<std::size_t> widths;
  for (const std::string& title : header_) widths.push_back(Width(title));
  for (const Row& row : rows_) {
    for (std::size_t i = 0; i < row.cells.size() && i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], Width(row.cells[i].text));
    }
  }
  std::string text;
  const auto add = [&](const std::vector<Cell>& cells) {
    std::size_t missing = 0;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (cells[i].text.empty()) {
        missing += widths[i] + 2;
        continue;
      }
      text.append(missing, ' ');
      text += Colored(cells[i].text, cells[i].tone, terminal);
      missing = widths[i] - Width(cells[i].text) + 2;
    }
    text += '\n';
  };
  std::vector<Cell> header;
  for (const std::string& title : header_) header.push_back({title, Tone::kFaint});
  add(header);
  for (const Row& row : rows_) {
    if (row.cells.empty()) {
      text += row.line + '\n';
    } else {
      add(row.cells);
    }
  }
  return text;
}

}  // namespace numafit::cli
