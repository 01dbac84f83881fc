// What `numafit doctor` finds: one line each, with what to do about it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace numafit::cli::doctor {

enum class Severity {
  kOk,
  kWarn,  // works, but worse or less surely than it could
  kFail,  // Pods are placed wrongly, or not at all
};

struct Finding {
  Severity severity = Severity::kOk;
  std::string code;                // a heading of docs/doctor.md
  std::string text;                // what is so, and what comes of it
  std::string fix;                 // empty when it is fine
  std::vector<std::string> nodes;  // which it is about; empty: none in particular
};

// In the order in which they were found. A plain value.
class Findings {
 public:
  void Ok(std::string code, std::string text) {
    all_.push_back({Severity::kOk, std::move(code), std::move(text), {}, {}});
  }
  void Warn(std::string code, std::string text, std::string fix,
            std::vector<std::string> nodes = {}) {
    all_.push_back(
        {Severity::kWarn, std::move(code), std::move(text), std::move(fix), std::move(nodes)});
  }
  void Fail(std::string code, std::string text, std::string fix,
            std::vector<std::string> nodes = {}) {
    all_.push_back(
        {Severity::kFail, std::move(code), std::move(text), std::move(fix), std::move(nodes)});
  }

  [[nodiscard]] const std::vector<Finding>& all() const { return all_; }
  [[nodiscard]] std::size_t Count(Severity severity) const {
    return static_cast<std::size_t>(std::count_if(
        all_.begin(), all_.end(), [&](const Finding& each) { return each.severity == severity; }));
  }

 private:
  std::vector<Finding> all_;
};

}  // namespace numafit::cli::doctor
