// Cuts the bytes of a watch stream into frames, each one event.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "kube/decode.h"

namespace numafit::kube {

// Protobuf frames are preceded by their length (four bytes, big endian), JSON frames end with a
// newline. Frames above kMaxFrame are refused before anything is allocated for them. Not
// thread-safe; feed pieces of any size in their order.
class WatchFrames {
 public:
  // client-go's bound; etcd holds no object nearly as large.
  static constexpr std::size_t kMaxFrame = std::size_t{16} << 20;

  explicit WatchFrames(Encoding encoding) : encoding_(encoding) {}

  // Calls visit(frame) for every frame that `bytes` completes and stops at its first error, which
  // is returned. DataLoss: a frame is too large. After an error the stream is of no further use.
  absl::Status Feed(std::string_view bytes,
                    const std::function<absl::Status(std::string_view)>& visit);

  // A frame has begun that is not complete: the stream was cut.
  [[nodiscard]] bool InsideFrame() const { return !rest_.empty(); }

 private:
  // The size of the first frame in `bytes` and where it starts; false when not complete yet.
  bool Next(std::string_view bytes, std::size_t& start, std::size_t& size, std::size_t& end);

  Encoding encoding_;
  std::string rest_;
  std::size_t searched_ = 0;  // of rest_, for the newline
  absl::Status status_;
};

}  // namespace numafit::kube
