#include "api/crd/report_descriptors.h"

#include <google/protobuf/descriptor.pb.h>

namespace numafit::api {
namespace {

template <typename D>
std::string Comment(const D& descriptor) {
  google::protobuf::SourceLocation location;
  if (!descriptor.GetSourceLocation(&location)) return "";
  std::string text;
  bool blank = false;
  for (const char c : location.leading_comments) {
    if (c == ' ' || c == '\n') {
      blank = !text.empty();
    } else {
      if (blank) text += ' ';
      blank = false;
      text += c;
    }
  }
  return text;
}

}  // namespace

std::string CommentOf(const google::protobuf::Descriptor& message) {
  return Comment(message);
}

std::string CommentOf(const google::protobuf::FieldDescriptor& field) {
  return Comment(field);
}

absl::StatusOr<ReportDescriptors> ReportDescriptors::Parse(std::string_view bytes) {
  google::protobuf::FileDescriptorSet set;
  ReportDescriptors parsed;
  parsed.pool_ = std::make_unique<google::protobuf::DescriptorPool>();
  const google::protobuf::FileDescriptor* file = nullptr;
  if (!set.ParseFromString(std::string(bytes)) || set.file_size() != 1 ||
      (file = parsed.pool_->BuildFile(set.file(0))) == nullptr) {
    return absl::InvalidArgumentError("not the descriptors of one .proto file");
  }
  parsed.status_ = file->FindMessageTypeByName("NodeReportStatus");
  if (parsed.status_ == nullptr) {
    return absl::InvalidArgumentError(file->name() + ": no message NodeReportStatus");
  }
  return absl::StatusOr<ReportDescriptors>(std::move(parsed));
}

}  // namespace numafit::api
