// api/node_report.proto with its comments, which a program does not know of its own messages.
#pragma once

#include <google/protobuf/descriptor.h>

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace numafit::api {

class ReportDescriptors {
 public:
  // `bytes` is what `protoc --include_source_info --descriptor_set_out` writes.
  static absl::StatusOr<ReportDescriptors> Parse(std::string_view bytes);

  // NodeReportStatus, valid as long as this.
  [[nodiscard]] const google::protobuf::Descriptor& status() const { return *status_; }

 private:
  std::unique_ptr<google::protobuf::DescriptorPool> pool_;
  const google::protobuf::Descriptor* status_ = nullptr;
};

// The comment before a message or field, as one paragraph; empty: there is none.
[[nodiscard]] std::string CommentOf(const google::protobuf::Descriptor& message);
[[nodiscard]] std::string CommentOf(const google::protobuf::FieldDescriptor& field);

}  // namespace numafit::api
