// The real numafit-extender in a process of its own, for benchmarks against a made-up API server.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

namespace numafit::bench {

// Runs from its making to its end, with an inventory from NodeReports.
class ExtenderProcess {
 public:
  // `more`: further lines of its configuration.
  ExtenderProcess(const std::string& program, int api_port, std::string_view more = "");
  ~ExtenderProcess();
  ExtenderProcess(const ExtenderProcess&) = delete;
  ExtenderProcess& operator=(const ExtenderProcess&) = delete;

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] int read_port() const { return read_port_; }
  [[nodiscard]] bool runs() const;
  // It has read its lists.
  [[nodiscard]] bool ready() const;
  // A line of /proc/PID/status, in MB.
  [[nodiscard]] double Megabytes(std::string_view key) const;
  // CPU seconds so far.
  [[nodiscard]] double CpuSeconds() const;
  // The value of a series, which is named as it is served, with its labels; -1: there is none.
  [[nodiscard]] double Metric(const std::string& name) const;

 private:
  int port_;
  int read_port_;
  std::string folder_;
  pid_t pid_ = -1;
};

}  // namespace numafit::bench
