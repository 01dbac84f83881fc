#include "api/crd/node_report_crd.h"

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
}

}  // namespace
}  // namespace numafit::api
