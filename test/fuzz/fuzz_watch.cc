// Watch streams: framing and decoding in both encodings, cut into pieces at random places. The
// first byte chooses encoding and kind, the second the size of the pieces.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "kube/decode.h"
#include "kube/watch_frames.h"

namespace {

using namespace numafit::kube;

template <typename T>
void Run(std::string_view bytes, Encoding encoding, std::size_t piece) {
  WatchFrames frames(encoding);
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    const absl::Status status = frames.Feed(bytes.substr(at, piece), [&](std::string_view frame) {
      return DecodeEvent<T>(frame, encoding).status();
    });
    if (!status.ok()) break;
  }
  static_cast<void>(DecodeList<T>(bytes, encoding));
  static_cast<void>(DecodeObject<T>(bytes, encoding));
  static_cast<void>(ToAbslStatus(410, DecodeStatus(bytes, encoding)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const Encoding encoding = (data[0] & 1U) != 0 ? Encoding::kJson : Encoding::kProtobuf;
  const std::size_t piece = std::max<std::size_t>(data[1], 1);
  if ((data[0] & 4U) != 0) {
    Run<numafit::api::NodeReport>(bytes, encoding, piece);
  } else if ((data[0] & 2U) != 0) {
    Run<numafit::api::Node>(bytes, encoding, piece);
  } else {
    Run<numafit::api::Pod>(bytes, encoding, piece);
  }
  return 0;
}
