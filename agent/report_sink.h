// Where reports go.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/node_report.pb.h"

namespace numafit::agent {

// Called from the agent's one thread; may block for seconds, then nothing is read meanwhile.
class ReportSink {
 public:
  virtual ~ReportSink() = default;

  // The generation of the node's report that is there, 0 when there is none. Asked until it
  // answers, before the first Publish, so that generations go on where a former agent ended.
  virtual absl::StatusOr<std::int32_t> LastGeneration(const std::string& node) = 0;

  // The report whose generation LastGeneration has told, where it can be worked with; null: there
  // is none, or it was taken already.
  virtual std::shared_ptr<const v1alpha1::NodeReportStatus> TakeLast() { return nullptr; }

  // Whether the report of this generation is still there. Asked from time to time, since nobody
  // tells the agent that it was deleted.
  virtual absl::StatusOr<bool> Stands(const std::string& /*node*/, std::int32_t /*generation*/) {
    return true;
  }

  // Makes `report` the node's only report, whether or not there was one. On an error it is called
  // again after a while, with the report that is current then. Aborted: a report of a generation
  // that is not older is there; LastGeneration is asked again first.
  virtual absl::Status Publish(const std::string& node,
                               const v1alpha1::NodeReportStatus& report) = 0;
};

// Writes each report to standard output as a YAML document.
class PrintSink : public ReportSink {
 public:
  absl::StatusOr<std::int32_t> LastGeneration(const std::string&) override { return 0; }
  absl::Status Publish(const std::string& node, const v1alpha1::NodeReportStatus& report) override;
};

}  // namespace numafit::agent
