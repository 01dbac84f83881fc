#include "agent/report_sink.h"

#include <cstdio>

#include "agent/report_yaml.h"

namespace numafit::agent {

absl::Status PrintSink::Publish(const std::string& node, const v1alpha1::NodeReportStatus& report) {
  const absl::StatusOr<std::string> text = ReportYaml(node, report);
  if (!text.ok()) return text.status();
  const std::string document = "---\n" + *text;
  const bool written = std::fwrite(document.data(), 1, document.size(), stdout) == document.size();
  if (!written || std::fflush(stdout) != 0) {
    return absl::DataLossError("standard output cannot be written");
  }
  return absl::OkStatus();
}

}  // namespace numafit::agent
