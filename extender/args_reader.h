// The arguments of filter and prioritize (ExtenderArgs), read without copying names.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "api/objects.h"

namespace numafit::extender {

struct Args {
  enum class Form {
    kNone,       // neither nodes nor names
    kNodeNames,  // nodeCacheCapable: true
    kNodes,      // whole Node objects
  };

  bool has_pod = false;
  api::Pod pod;
  Form form = Form::kNone;
  // In the order of the request, duplicates included. Valid until the reader's next call.
  std::vector<std::string_view> names;
  // Form kNodes: the JSON text of each node, in the same order; views into the body.
  std::vector<std::string_view> nodes;
};

// Keeps its parser and buffers; one per thread.
class ArgsReader {
 public:
  ArgsReader();
  ~ArgsReader();

  // `body` has http::kBodyPadding readable bytes behind it. Keys of the top level match without
  // regard to case, the last of equal keys wins, null is the same as absent. Where both forms are
  // given, the names are taken.
  // InvalidArgument: what is wrong and where (the byte of malformed JSON, the path of a wrong
  // type).
  absl::Status Read(std::string_view body, Args* args);

 private:
  struct Parsers;
  absl::Status ReadNames(Args* args);
  absl::Status ReadNodes(std::string_view body, Args* args);

  std::unique_ptr<Parsers> parsers_;
};

}  // namespace numafit::extender
