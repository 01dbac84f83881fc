// Structured logs: one JSON object a line on standard error.
//
// Decisions (one line per filter, bind) are limited in rate; the next line that passes says how
// many were left out. Lines of the second kind (start, stop, the API server's state) are not.
// Values are escaped here; spdlog would not.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "api/mutex.h"

namespace spdlog {
class logger;
namespace sinks {
class sink;
}
}  // namespace spdlog

namespace numafit::extender {

enum class LogLevel { kDebug, kInfo, kWarn, kError, kOff };
// "debug", "info", …; false for another word.
bool ParseLogLevel(std::string_view word, LogLevel* level);

// The fields of one line, in the order they are added.
class LogLine {
 public:
  explicit LogLine(std::string_view event);
  LogLine& Text(std::string_view key, std::string_view value);
  LogLine& Int(std::string_view key, std::int64_t value);
  [[nodiscard]] const std::string& fields() const { return fields_; }

 private:
  std::string fields_;  // "event":"filter","pod":"…"
};

// Thread-safe.
class DecisionLog {
 public:
  struct Options {
    LogLevel level = LogLevel::kInfo;
    int decisions_per_second = 100;  // 0: no limit
  };
  // Writes to standard error; tests give a sink of their own.
  explicit DecisionLog(Options options, std::shared_ptr<spdlog::sinks::sink> sink = nullptr);
  ~DecisionLog();

  [[nodiscard]] bool Enabled(LogLevel level) const { return level >= options_.level; }
  // False when it was left out. `now_ms` is monotonic.
  bool Decision(LogLine& line, std::int64_t now_ms);
  void Write(LogLevel level, const LogLine& line);

 private:
  bool Take(std::int64_t now_ms, std::int64_t* dropped);

  const Options options_;
  std::shared_ptr<spdlog::logger> logger_;
  api::Mutex mutex_;
  std::int64_t tokens_ NUMAFIT_GUARDED_BY(mutex_) = 0;
  std::int64_t refilled_ms_ NUMAFIT_GUARDED_BY(mutex_) = -1;
  std::int64_t dropped_ NUMAFIT_GUARDED_BY(mutex_) = 0;
};

}  // namespace numafit::extender
