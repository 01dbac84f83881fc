// Filter calls at a steady pace, and how long they take.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "test/extender/http/http_client.h"

namespace numafit::bench {

struct Latency {
  double p50 = 0;
  double p99 = 0;
  double most = 0;
  std::size_t count = 0;
};
[[nodiscard]] Latency LatencyOf(std::vector<double> samples);

// Asks about Pods with 1, 2 and 4 GPUs and adapters in turn, each time with the same names in an
// order that is random once.
class FilterCalls {
 public:
  struct Options {
    int nodes = 0;  // of the cluster, of which it takes `names`
    int names = 0;
    int per_second = 0;
  };
  FilterCalls(const Options& options, int port);

  // For so long; milliseconds each. Ends the program when an answer is no success.
  std::vector<double> Run(double seconds);

 private:
  const Options options_;
  extender::http::RawClient client_;
  std::vector<std::string> bodies_;
};

}  // namespace numafit::bench
