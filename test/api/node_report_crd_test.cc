#include "api/crd/node_report_crd.h"
#include "api/crd/node_report_fields.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "test/paths.h"

namespace numafit::api {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string Descriptors() {
  return ReadFile(test::BinaryDir() + "/generated/api/node_report.desc");
}

TEST(NodeReportCrdTest, TheFileIsWhatTheGeneratorSays) {
  const auto crd = NodeReportCrd(Descriptors());
  ASSERT_TRUE(crd.ok()) << crd.status();
  EXPECT_TRUE(ReadFile(test::SourceDir() + "/deploy/manifests/crd-nodereports.yaml") == *crd)
      << "run hack/generate.sh";
}

TEST(NodeReportFieldsTest, TheFileIsWhatTheGeneratorSays) {
  const auto fields = NodeReportFields(Descriptors());
  ASSERT_TRUE(fields.ok()) << fields.status();
  EXPECT_TRUE(ReadFile(test::SourceDir() + "/docs/node-report-fields.md") == *fields)
      << "run hack/generate.sh";
}

TEST(NodeReportFieldsTest, SaysTypeAndMeaning) {
  const auto fields = NodeReportFields(Descriptors());
  ASSERT_TRUE(fields.ok()) << fields.status();
  for (const char* part :
       {"| `noTopology` | true or false | The plugin publishes no topology for them",
        "| `numaNodes` | list: NumaNode | By id. |", "| `free` | text by name | Type to bytes. |",
        "## RdmaDevice\n\nAn RDMA device of the host"}) {
    EXPECT_NE(fields->find(part), std::string::npos) << part;
  }
}

TEST(NodeReportCrdTest, HasTypesBoundsAndWords) {
  const auto crd = NodeReportCrd(Descriptors());
  ASSERT_TRUE(crd.ok()) << crd.status();
  for (const char* part :
       {"name: nodereports.numafit.io", "scope: Cluster",
        "topologyManagerPolicyOptions:", "format: int32", "maximum: 1048576", "maxItems: 4096",
        "maxProperties: 64", "format: date-time", "jsonPath: .status.summary.accelerators",
        "What the devices are tokens of (an adapter, a card)"}) {
    EXPECT_NE(crd->find(part), std::string::npos) << part;
  }
}

TEST(NodeReportCrdTest, OtherBytesAreAnError) {
  EXPECT_FALSE(NodeReportCrd("").ok());
  EXPECT_FALSE(NodeReportCrd("garbage").ok());
  EXPECT_FALSE(NodeReportCrd(Descriptors().substr(0, 100)).ok());
  EXPECT_FALSE(NodeReportFields("garbage").ok());
}

}  // namespace
}  // namespace numafit::api
