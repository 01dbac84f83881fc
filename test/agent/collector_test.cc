// The agent as a whole on a made-up host: files, the kubelet's socket, the watch.
#include "agent/collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "agent/folder_watch.h"
#include "agent/report_loop.h"
#include "test/agent/fake_kubelet.h"
#include "test/agent/made_up_host.h"

namespace numafit::agent {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kGpu[] = "nvidia.com/gpu";
constexpr char kRdma[] = "device.gpustack.ai/rdma";
constexpr char kCheckpoint[] = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint";
constexpr char kUid[] = "0b0f8f3e-6f3c-4a55-9d4e-0e6e5f0a1a01";

class CollectorTest : public ::testing::Test {
 protected:
  CollectorTest() {
    host_.Write("/proc/sys/kernel/random/boot_id", "boot-1\n");
    host_.AddNumaNode(0, 2, "0-3", 0);
    host_.AddNumaNode(1, 2, "4-7", 1);
    host_.AddRdmaDevice("mlx5_0", "pci0000:15/0000:18:00.0", 0, "ib0");
    host_.Write("/var/lib/kubelet/config.yaml",
                "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
                "topologyManagerPolicy: restricted\n");
    host_.MakeFolder("/var/lib/kubelet/pod-resources");
    host_.MakeFolder(std::string("/var/log/pods/team_train_") + kUid);
    host_.Write(kCheckpoint, CheckpointText({}, Registered()));
    config_.root = host_.root();
    kubelet_.SetAllocatable({{kGpu, {{"GPU-0", {0}}, {"GPU-1", {1}}}},
                             {kRdma, {{"ib0:ib0:0000", {0}}, {"ib1:ib1:0000", {1}}}}});
  }

  static std::map<std::string, std::vector<std::string>> Registered() {
    return {{kGpu, {"GPU-0", "GPU-1"}}, {kRdma, {"ib0:ib0:0000", "ib1:ib1:0000"}}};
  }

  void Admit() {
    host_.Write(kCheckpoint, CheckpointText({{kUid, "main", kGpu, {{0, {"GPU-0"}}}},
                                             {kUid, "main", kRdma, {{1, {"ib1:ib1:0000"}}}}},
                                            Registered()));
    kubelet_.SetPods(
        {{"team",
          "train",
          {{"main", {{kGpu, {{"GPU-0", {0}}}}, {kRdma, {{"ib1:ib1:0000", {1}}}}}, {}}}}});
  }

  static std::string ErrorOf(const v1alpha1::NodeReportStatus& report, const std::string& source) {
    for (const v1alpha1::Source& entry : report.sources()) {
      if (entry.name() == source) return entry.error();
    }
    return "no such source";
  }
  static std::string TimeOf(const v1alpha1::NodeReportStatus& report, const std::string& source) {
    for (const v1alpha1::Source& entry : report.sources()) {
      if (entry.name() == source) return entry.read_time();
    }
    return "no such source";
  }

  MadeUpHost host_;
  FakeKubelet kubelet_{host_.Path("/var/lib/kubelet/pod-resources/kubelet.sock")};
  AgentConfig config_;
  absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
};

TEST_F(CollectorTest, FromFilesAndSocketToAReport) {
  kubelet_.Start();
  Admit();
  Collector collector(config_, [this] { return now_; });
  const v1alpha1::NodeReportStatus report = collector.Collect();
  EXPECT_EQ(report.boot_id(), "boot-1");
  EXPECT_EQ(report.numa_nodes_size(), 2);
  ASSERT_EQ(report.rdma_devices_size(), 1);
  EXPECT_EQ(report.kubelet().topology_manager_policy(), "restricted");
  EXPECT_FALSE(report.kubelet().confirmed());
  ASSERT_EQ(report.pods_size(), 1);
  EXPECT_EQ(report.pods(0).uid(), kUid);
  EXPECT_EQ(report.pods(0).devices_size(), 2);
  EXPECT_EQ(report.summary().accelerators(), "1/2");
  EXPECT_EQ(report.summary().endpoints(), "1/2");
  EXPECT_EQ(report.summary().misaligned_containers(), 1);
  EXPECT_EQ(ErrorOf(report, "pod-resources"), "");
  EXPECT_EQ(TimeOf(report, "pod-resources"), "2027-01-15T08:00:00Z");
  EXPECT_THAT(ErrorOf(report, "cpu-state"), HasSubstr("cpu_manager_state"));
  EXPECT_EQ(TimeOf(report, "cpu-state"), "") << "never read";
}

TEST_F(CollectorTest, BareHostHasAReportToo) {
  MadeUpHost bare;
  config_.root = bare.root();
  Collector collector(config_, [this] { return now_; });
  const v1alpha1::NodeReportStatus report = collector.Collect();
  EXPECT_EQ(report.resources_size() + report.pods_size(), 0);
  for (const char* source : {"pod-resources", "device-checkpoint", "cpu-state", "memory-state",
                             "configuration", "machine", "rdma-devices", "pod-logs"}) {
    EXPECT_NE(ErrorOf(report, source), "") << source;
  }
  EXPECT_EQ(report.kubelet().topology_manager_policy(), "") << "unknown, not a default";
}

TEST_F(CollectorTest, BrokenStateFileKeepsTheLastGoodOne) {
  kubelet_.Start();
  Admit();
  Collector collector(config_, [this] { return now_; });
  const v1alpha1::NodeReportStatus good = collector.Collect();
  now_ += absl::Seconds(10);
  std::string text = CheckpointText({}, Registered());
  const std::vector<std::pair<std::string, std::string>> broken = {
      {text.substr(0, text.size() / 2), "cut off"},
      {"", "the file is empty"},
      {std::string(text).replace(text.find("GPU-1"), 5, "GPU-2"), "checksum"},
  };
  for (const auto& [content, message] : broken) {
    host_.Write(kCheckpoint, content);
    const v1alpha1::NodeReportStatus report = collector.CollectPods();
    EXPECT_THAT(ErrorOf(report, "device-checkpoint"), HasSubstr(message));
    EXPECT_EQ(TimeOf(report, "device-checkpoint"), "2027-01-15T08:00:00Z");
    EXPECT_EQ(TimeOf(report, "pod-resources"), "2027-01-15T08:00:10Z");
    ASSERT_EQ(report.pods_size(), 1);
    EXPECT_EQ(report.pods(0).uid(), kUid);
  }
  host_.Remove(kCheckpoint);
  EXPECT_EQ(collector.CollectPods().pods(0).uid(), kUid);
  Admit();
  EXPECT_EQ(Fingerprint(collector.CollectPods()), Fingerprint(good));
}

TEST_F(CollectorTest, KubeletRestart) {
  kubelet_.Start();
  Admit();
  Collector collector(config_, [this] { return now_; });
  const v1alpha1::NodeReportStatus before = collector.Collect();
  kubelet_.Stop();
  EXPECT_TRUE(collector.PodsChanged()) << "it has gone";
  const v1alpha1::NodeReportStatus away = collector.Collect();
  EXPECT_FALSE(collector.PodsChanged()) << "that is known";
  EXPECT_THAT(ErrorOf(away, "pod-resources"), HasSubstr("kubelet.sock"));
  EXPECT_TRUE(away.kubelet().away());
  EXPECT_FALSE(before.kubelet().away());
  ASSERT_EQ(away.pods_size(), 1);
  EXPECT_EQ(away.summary().accelerators(), "1/2") << "what was last known";
  // It is back, its plugins are not.
  kubelet_.SetAllocatable({});
  kubelet_.Start();
  EXPECT_TRUE(collector.PodsChanged()) << "it has come";
  const v1alpha1::NodeReportStatus fresh = collector.Collect();
  EXPECT_FALSE(fresh.kubelet().away());
  EXPECT_EQ(fresh.summary().accelerators(), "0/0");
  EXPECT_EQ(fresh.resources_size(), 2);
  kubelet_.SetAllocatable({{kGpu, {{"GPU-0", {0}}, {"GPU-1", {1}}}},
                           {kRdma, {{"ib0:ib0:0000", {0}}, {"ib1:ib1:0000", {1}}}}});
  Admit();
  EXPECT_EQ(Fingerprint(collector.Collect()), Fingerprint(before));
}

TEST_F(CollectorTest, AKubeletThatDoesNotKnowItsPodsYetIsAway) {
  kubelet_.Start();
  Admit();
  Collector collector(config_, [this] { return now_; });
  now_ = absl::Now() + absl::Hours(1);
  EXPECT_FALSE(collector.Collect().kubelet().away());
  kubelet_.Stop();
  kubelet_.SetPods({{"kube-system", "static", {{"main", {}, {}}}}});
  kubelet_.Start();
  const absl::Time start = absl::Now();
  now_ = start + absl::Seconds(1);
  EXPECT_TRUE(collector.Collect().kubelet().away())
      << "its checkpoint has a Pod that it does not list";
  EXPECT_FALSE(collector.PodsChanged());
  // It has ended, and the checkpoint will not change before the next admission.
  now_ = start + absl::Seconds(11);
  EXPECT_TRUE(collector.PodsChanged());
  EXPECT_FALSE(collector.CollectPods().kubelet().away());
  EXPECT_FALSE(collector.PodsChanged());
  // Or the kubelet has heard of it.
  now_ = start + absl::Seconds(2);
  EXPECT_TRUE(collector.CollectPods().kubelet().away());
  Admit();
  EXPECT_TRUE(collector.PodsChanged());
  EXPECT_FALSE(collector.CollectPods().kubelet().away());
}

TEST_F(CollectorTest, VersionIsAskedForUntilItIsKnownAndAgainWhenTheKubeletCameBack) {
  int asked = 0;
  absl::StatusOr<Collector::NodeFacts> answer = absl::UnavailableError("away");
  Collector collector(
      config_, [this] { return now_; },
      [&] {
        ++asked;
        return answer;
      });
  EXPECT_EQ(collector.Collect().kubelet().version(), "");
  answer = Collector::NodeFacts{.kubelet_version = "v1.36.3"};
  EXPECT_EQ(collector.Collect().kubelet().version(), "v1.36.3");
  EXPECT_EQ(collector.CollectPods().kubelet().version(), "v1.36.3");
  for (int i = 0; i < 20; ++i) collector.Collect();
  const int before = asked;
  EXPECT_LE(before, 12);
  kubelet_.Start();
  answer = absl::UnavailableError("away");
  EXPECT_EQ(collector.Collect().kubelet().version(), "v1.36.3") << "the last that was known";
  answer = Collector::NodeFacts{.kubelet_version = "v1.37.2"};
  EXPECT_EQ(collector.Collect().kubelet().version(), "v1.37.2");
  EXPECT_EQ(asked, before + 2);
}

TEST_F(CollectorTest, DevicesThatTheNodeCountsAndNobodyHasSeenAreTold) {
  kubelet_.Start();
  Admit();
  int asked = 0;
  absl::StatusOr<Collector::NodeFacts> answer = Collector::NodeFacts{
      .kubelet_version = "v1.36.3", .capacity = {{kGpu, 3}, {kRdma, 2}, {"cpu", 64}}};
  Collector collector(
      config_, [this] { return now_; },
      [&] {
        ++asked;
        return answer;
      });
  const v1alpha1::NodeReportStatus report = collector.Collect();
  EXPECT_EQ(ErrorOf(report, "node"),
            std::string(kGpu) + ": the kubelet counts 3 devices, and 2 were ever seen");
  EXPECT_EQ(TimeOf(report, "node"), "2027-01-15T08:00:00Z");
  EXPECT_EQ(report.summary().accelerators(), "1/2") << "nobody knows where it is: no row";
  EXPECT_EQ(ErrorOf(collector.CollectPods(), "node"), ErrorOf(report, "node"));
  // As long as it is so the Node is asked again.
  for (int i = 0; i < 20; ++i) collector.Collect();
  EXPECT_EQ(asked, 21);
  // It is healthy for once, and is known from then on.
  kubelet_.SetAllocatable({{kGpu, {{"GPU-0", {0}}, {"GPU-1", {1}}, {"GPU-2", {1}}}},
                           {kRdma, {{"ib0:ib0:0000", {0}}, {"ib1:ib1:0000", {1}}}}});
  EXPECT_EQ(ErrorOf(collector.Collect(), "node"), "");
  kubelet_.SetAllocatable({{kGpu, {{"GPU-0", {0}}, {"GPU-1", {1}}}},
                           {kRdma, {{"ib0:ib0:0000", {0}}, {"ib1:ib1:0000", {1}}}}});
  EXPECT_EQ(ErrorOf(collector.Collect(), "node"), "");
  // A list that cannot be had says nothing.
  kubelet_.Stop();
  EXPECT_EQ(ErrorOf(collector.Collect(), "node"), "");
}

TEST_F(CollectorTest, PodThatEndsIsSeenByAskingOnly) {
  kubelet_.Start();
  Admit();
  Collector collector(config_, [this] { return now_; });
  collector.Collect();
  EXPECT_FALSE(collector.PodsChanged());
  // No file changes: the checkpoint names the Pod until another one is admitted.
  kubelet_.SetPods({});
  EXPECT_TRUE(collector.PodsChanged());
  EXPECT_EQ(collector.CollectPods().pods_size(), 0);
  EXPECT_FALSE(collector.PodsChanged());
}

TEST_F(CollectorTest, EndpointMapThatNamesNothingHereIsAnErrorOfItsSource) {
  config_.endpoint_map = {{"rdma/a", "*", {"mlx5_7"}, {}, {}, {}}};
  Collector collector(config_, [this] { return now_; });
  EXPECT_THAT(ErrorOf(collector.Collect(), "endpoint-map"), HasSubstr("mlx5_7"));
}

TEST(FolderWatch, SeesRenamesSocketsAndFoldersThatComeLater) {
  MadeUpHost host;
  host.MakeFolder("/k");
  FolderWatch watch({host.Path("/k"), host.Path("/k/plugins")});
  ASSERT_GE(watch.fd(), 0);
  EXPECT_THAT(watch.Take(), IsEmpty());
  host.Write("/k/state", "x");
  EXPECT_THAT(watch.Take(), ElementsAre(host.Path("/k/state"))) << "the temporary file is no news";
  host.MakeFolder("/k/plugins");
  EXPECT_THAT(watch.Take(), Contains(host.Path("/k/plugins")));
  host.Write("/k/plugins/checkpoint", "x");
  EXPECT_THAT(watch.Take(), Contains(host.Path("/k/plugins/checkpoint")));
  host.Remove("/k/plugins");
  EXPECT_THAT(watch.Take(), Contains(host.Path("/k/plugins")));
  host.MakeFolder("/k/plugins");
  watch.Take();
  host.Write("/k/plugins/checkpoint", "y");
  EXPECT_THAT(watch.Take(), Contains(host.Path("/k/plugins/checkpoint")));
}

// Hands reports to the test's thread.
class WaitingSink : public ReportSink {
 public:
  absl::StatusOr<std::int32_t> LastGeneration(const std::string&) override { return 0; }
  absl::Status Publish(const std::string&, const v1alpha1::NodeReportStatus& report) override {
    const std::lock_guard lock(mutex_);
    reports_.push_back(report);
    changed_.notify_all();
    return absl::OkStatus();
  }
  // The first report from the n-th on for which the predicate holds; waits for it.
  template <typename Predicate>
  bool WaitFor(Predicate predicate) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20),
                             [&] { return !reports_.empty() && predicate(reports_.back()); });
  }
  std::size_t count() {
    const std::lock_guard lock(mutex_);
    return reports_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<v1alpha1::NodeReportStatus> reports_;
};

TEST_F(CollectorTest, LoopPublishesEachChangeAndNothingElse) {
  config_.settle = std::chrono::milliseconds(5);
  config_.min_interval = std::chrono::milliseconds(50);
  config_.pods_poll = std::chrono::milliseconds(50);
  config_.full_poll = std::chrono::milliseconds(1'000);
  Collector collector(config_, [] { return absl::FromUnixSeconds(1'800'000'000); });
  WaitingSink sink;
  Publisher publisher(
      sink, "n", [] { return absl::FromUnixSeconds(1'800'000'000); }, {}, 1);
  const int stop = ::eventfd(0, EFD_CLOEXEC);
  std::thread loop([&] { RunReports(config_, collector, publisher, stop); });

  EXPECT_TRUE(sink.WaitFor([](const auto& r) { return r.kubelet().away(); }));
  kubelet_.Start();
  EXPECT_TRUE(sink.WaitFor([](const auto& r) { return r.summary().accelerators() == "2/2"; }));
  Admit();
  EXPECT_TRUE(sink.WaitFor([](const auto& r) {
    return r.pods_size() == 1 && r.pods(0).uid() == kUid && r.summary().endpoints() == "1/2";
  }));
  kubelet_.SetPods({});
  EXPECT_TRUE(sink.WaitFor([](const auto& r) { return r.pods_size() == 0; }));
  const std::size_t before = sink.count();
  const int calls = kubelet_.calls();
  // Several polls, a full one among them, find nothing new.
  while (kubelet_.calls() < calls + 25) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(sink.count(), before);
  kubelet_.Stop();
  EXPECT_TRUE(sink.WaitFor([](const auto& r) { return ErrorOf(r, "pod-resources") != ""; }));
  const std::uint64_t one = 1;
  ASSERT_EQ(::write(stop, &one, sizeof one), static_cast<ssize_t>(sizeof one));
  loop.join();
  ::close(stop);
}

}  // namespace
}  // namespace numafit::agent
