#include "agent/report_yaml.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "agent/collector.h"
#include "api/yaml_tree.h"

namespace numafit::agent {
namespace {

TEST(ReportYaml, ReadsBackAsTheSameReport) {
  v1alpha1::NodeReportStatus status;
  status.set_boot_id("12345678");
  status.set_default_cpus("0-3,8");
  status.set_generation(7);
  status.add_sources()->set_error("cut: \"off\"\n#7 \xe2\x80\xa6");
  status.mutable_kubelet()->set_topology_manager_policy("none");
  (*status.mutable_kubelet()->mutable_topology_manager_policy_options())["full"] = "true";
  (*status.mutable_kubelet()->mutable_feature_gates())["A"] = true;
  v1alpha1::NumaNode* node = status.add_numa_nodes();
  node->set_memory("17179869184");
  node->add_distances(10);
  node->add_cores()->add_threads("0");
  status.add_numa_nodes();
  v1alpha1::Resource* resource = status.add_resources();
  resource->set_name("nvidia.com/gpu");
  resource->add_groups()->set_endpoint("GPU-0");
  resource->add_groups()->set_endpoint("0e1");
  status.add_resources()->set_name("yes");

  const auto yaml = ReportYaml("gpu-node-1", status);
  ASSERT_TRUE(yaml.ok()) << yaml.status();
  const auto documents = api::ParseYaml(*yaml, "report");
  ASSERT_TRUE(documents.ok()) << documents.status() << "\n" << *yaml;
  ASSERT_EQ(documents->size(), 1U);
  const nlohmann::json object = api::YamlToJson(documents->front());
  EXPECT_EQ(object["apiVersion"], "numafit.io/v1alpha1");
  EXPECT_EQ(object["kind"], "NodeReport");
  EXPECT_EQ(object["metadata"]["name"], "gpu-node-1");
  EXPECT_TRUE(object["status"]["bootId"].is_string()) << *yaml;
  v1alpha1::NodeReportStatus back;
  const auto parsed = google::protobuf::util::JsonStringToMessage(object["status"].dump(), &back);
  ASSERT_TRUE(parsed.ok()) << parsed.ToString() << "\n" << *yaml;
  EXPECT_EQ(Fingerprint(back), Fingerprint(status)) << *yaml;
  EXPECT_EQ(back.generation(), 7);
}

}  // namespace
}  // namespace numafit::agent
