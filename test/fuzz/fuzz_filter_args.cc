// filter and prioritize requests: any bytes are read or refused, within the memory of the contract.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "extender/args_reader.h"
#include "extender/http/parked_server.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace numafit::extender;
  static ArgsReader reader;
  static Args args;
  const auto memory = std::make_unique<char[]>(size + http::kBodyPadding);
  std::copy_n(data, size, memory.get());
  const absl::Status status = reader.Read(std::string_view(memory.get(), size), &args);
  if (!status.ok() && status.message().empty()) std::abort();
  if (status.ok() && args.form == Args::Form::kNodes && args.nodes.size() != args.names.size()) {
    std::abort();
  }
  return 0;
}
