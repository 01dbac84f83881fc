#include "extender/decision_log.h"

#include <algorithm>
#include <utility>

#include "extender/json_text.h"
#include "spdlog/logger.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/stdout_sinks.h"

namespace numafit::extender {
namespace {

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

}  // namespace

bool ParseLogLevel(std::string_view word, LogLevel* level) {
  static constexpr std::pair<std::string_view, LogLevel> kWords[] = {{"debug", LogLevel::kDebug},
                                                                     {"info", LogLevel::kInfo},
                                                                     {"warn", LogLevel::kWarn},
                                                                     {"error", LogLevel::kError},
                                                                     {"off", LogLevel::kOff}};
  for (const auto& [name, value] : kWords) {
    if (name == word) {
      *level = value;
      return true;
    }
  }
  return false;
}

LogLine::LogLine(std::string_view event) {
  fields_.reserve(256);
  fields_.append(R"("event":)");
  AppendJsonString(event, &fields_);
}

LogLine& LogLine::Text(std::string_view key, std::string_view value) {
  fields_.push_back(',');
  AppendJsonString(key, &fields_);
  fields_.push_back(':');
  AppendJsonString(value, &fields_);
  return *this;
}

LogLine& LogLine::Int(std::string_view key, std::int64_t value) {
  fields_.push_back(',');
  AppendJsonString(key, &fields_);
  fields_.push_back(':');
  AppendInt(value, &fields_);
  return *this;
}

DecisionLog::DecisionLog(Options options, std::shared_ptr<spdlog::sinks::sink> sink)
    : options_(options) {
  if (sink == nullptr) sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  logger_ = std::make_shared<spdlog::logger>("numafit", std::move(sink));
  logger_->set_formatter(std::make_unique<spdlog::pattern_formatter>(
      R"({"ts":"%Y-%m-%dT%H:%M:%S.%fZ","lvl":"%l",%v})", spdlog::pattern_time_type::utc));
  logger_->set_level(ToSpdlog(options_.level));
}

DecisionLog::~DecisionLog() = default;

bool DecisionLog::Take(std::int64_t now_ms, std::int64_t* dropped) {
  const std::int64_t per_second = options_.decisions_per_second;
  if (per_second <= 0) return true;
  const api::MutexLock lock(mutex_);
  if (refilled_ms_ < 0 || now_ms - refilled_ms_ >= 1000) {
    tokens_ = per_second;
    refilled_ms_ = now_ms;
  }
  if (tokens_ == 0) {
    ++dropped_;
    return false;
  }
  --tokens_;
  *dropped = std::exchange(dropped_, 0);
  return true;
}

bool DecisionLog::Decision(LogLine& line, std::int64_t now_ms) {
  if (!Enabled(LogLevel::kInfo)) return true;
  std::int64_t dropped = 0;
  if (!Take(now_ms, &dropped)) return false;
  if (dropped > 0) line.Int("leftOut", dropped);
  Write(LogLevel::kInfo, line);
  return true;
}

void DecisionLog::Write(LogLevel level, const LogLine& line) {
  logger_->log(ToSpdlog(level), "{}", line.fields());
}

}  // namespace numafit::extender
