// Aligned columns for people, and what the terminal can show.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace numafit::cli {

struct Terminal {
  bool color = false;
  // Of standard output; colour only when it is a terminal, NO_COLOR is not set and TERM not "dumb".
  static Terminal OfStandardOutput();
};

enum class Tone { kPlain, kGood, kCaution, kBad, kFaint };

// The text in its colour, or as it is.
[[nodiscard]] std::string Colored(std::string_view text, Tone tone, const Terminal& terminal);

class Table {
 public:
  struct Cell {
    std::string text;
    Tone tone = Tone::kPlain;
  };

  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}
  // As many cells as the header has, or fewer.
  void Add(std::vector<Cell> row) { rows_.push_back({std::move(row), {}}); }
  // A line that does not take part in the columns.
  void AddLine(std::string line) { rows_.push_back({{}, std::move(line)}); }

  // Columns two spaces apart; no spaces at line ends.
  [[nodiscard]] std::string Render(const Terminal& terminal) const;

 private:
  struct Row {
    std::vector<Cell> cells;
    std::string line;
  };
  std::vector<std::string> header_;
  std::vector<Row> rows_;
};

// "41 s", "5 min", "3 h", "2 d": for people. Precondition: not negative.
[[nodiscard]] std::string AgeText(std::int64_t seconds);

// Columns that a text takes: code points, not bytes.
[[nodiscard]] std::size_t Width(std::string_view text);

}  // namespace numafit::cli
