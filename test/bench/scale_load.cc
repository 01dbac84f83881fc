#include "test/bench/scale_load.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include "test/bench/api_stub.h"
#include "test/bench/made_up_nodes.h"
#include "test/kube/encode.h"

namespace numafit::bench {
namespace {

constexpr std::array<int, 3> kSizes = {1, 2, 4};

}  // namespace

class ScaleLoad::Impl {
 public:
  explicit Impl(int count) : nodes_(static_cast<std::size_t>(count)) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const auto some = static_cast<int>(random_() % 5);
      for (int n = 0; n < some; ++n) AddPod(nodes_[i]);
    }
    const auto nodes = [this] { return nodes_.size(); };
    // Pages of nodes, not of Pods: a page has as many Pods as its nodes have.
    pods_ = api_.Serve(
        "/api/v1/pods", ApiStub::Encoding::kProtobuf, nodes,
        [this](auto begin, auto end, const auto& next) { return ListPods(begin, end, next); });
    reports_ = api_.Serve(
        "/apis/numafit.io/v1alpha1/nodereports", ApiStub::Encoding::kJson, nodes,
        [this](auto begin, auto end, const auto& next) { return ListReports(begin, end, next); });
    api_.Start();
  }

  [[nodiscard]] int port() const { return api_.port(); }
  [[nodiscard]] int pods() {
    const std::lock_guard lock(api_.mutex());
    int sum = 0;
    for (const NodeLoad& node : nodes_) sum += static_cast<int>(node.pods.size());
    return sum;
  }
  [[nodiscard]] std::size_t report_bytes() {
    const std::lock_guard lock(api_.mutex());
    std::size_t sum = 0;
    constexpr int kSample = 100;
    for (int i = 0; i < kSample; ++i) sum += ReportOf(random_() % nodes_.size()).size();
    return sum / kSample;
  }
  [[nodiscard]] bool watched() const { return api_.watched(pods_) && api_.watched(reports_); }
  [[nodiscard]] std::int64_t changes() const { return changes_; }
  void Change();

 private:
  bool AddPod(NodeLoad& node) {
    return node.Add({.serial = ++serial_, .devices = kSizes[random_() % kSizes.size()]});
  }
  [[nodiscard]] std::string ReportOf(std::size_t index) const {
    return MakeReport(static_cast<int>(index), nodes_[index], version_);
  }
  void SendPod(const char* type, const PodLoad& pod, std::size_t node, bool runs) {
    const api::Pod object = MakePod(pod, static_cast<int>(node), runs, ++version_);
    api_.Send(pods_, kube_testing::EncodeEvent(
                         type, kube_testing::Envelope("Pod", kube_testing::EncodePod(object))));
  }
  [[nodiscard]] std::string ListPods(std::size_t begin, std::size_t end,
                                     const std::string& next) const;
  [[nodiscard]] std::string ListReports(std::size_t begin, std::size_t end,
                                        const std::string& next) const;

  std::vector<NodeLoad> nodes_;
  std::mt19937 random_{7};
  int serial_ = 0;
  std::int64_t version_ = 1000;
  int pods_ = 0;
  int reports_ = 0;
  std::atomic<std::int64_t> changes_ = 0;
  ApiStub api_;  // last: its threads use all of the above
};

void ScaleLoad::Impl::Change() {
  const std::lock_guard lock(api_.mutex());
  const std::size_t index = random_() % nodes_.size();
  NodeLoad& node = nodes_[index];
  const bool comes = node.pods.empty() || random_() % 2 == 0;
  ++node.generation;
  const bool added = comes && AddPod(node);
  if (added) {
    SendPod("ADDED", node.pods.back(), index, /*runs=*/false);
  } else if (!node.pods.empty()) {
    const auto at = static_cast<std::ptrdiff_t>(random_() % node.pods.size());
    const PodLoad gone = node.pods[static_cast<std::size_t>(at)];
    node.pods.erase(node.pods.begin() + at);
    SendPod("DELETED", gone, index, /*runs=*/true);
  }
  ++version_;
  api_.Send(reports_, fmt::format("{{\"type\":\"MODIFIED\",\"object\":{}}}\n", ReportOf(index)));
  if (added) SendPod("MODIFIED", node.pods.back(), index, /*runs=*/true);
  ++changes_;
}

std::string ScaleLoad::Impl::ListPods(std::size_t begin, std::size_t end,
                                      const std::string& next) const {
  std::vector<std::string> items;
  for (std::size_t i = begin; i < end; ++i) {
    for (const PodLoad& pod : nodes_[i].pods) {
      items.push_back(
          kube_testing::EncodePod(MakePod(pod, static_cast<int>(i), /*runs=*/true, version_)));
    }
  }
  return kube_testing::EncodeList("PodList", items, std::to_string(version_), next);
}

std::string ScaleLoad::Impl::ListReports(std::size_t begin, std::size_t end,
                                         const std::string& next) const {
  std::vector<std::string> items;
  for (std::size_t i = begin; i < end; ++i) items.push_back(ReportOf(i));
  return EncodeJsonList("NodeReportList", items, version_, next);
}

ScaleLoad::ScaleLoad(int nodes) : impl_(std::make_unique<Impl>(nodes)) {}
ScaleLoad::~ScaleLoad() = default;
int ScaleLoad::port() const {
  return impl_->port();
}
int ScaleLoad::pods() const {
  return impl_->pods();
}
std::size_t ScaleLoad::report_bytes() const {
  return impl_->report_bytes();
}
bool ScaleLoad::watched() const {
  return impl_->watched();
}
void ScaleLoad::Change() {
  impl_->Change();
}
std::int64_t ScaleLoad::changes() const {
  return impl_->changes();
}

}  // namespace numafit::bench
