// Reports for tests.
#pragma once

#include "api/node_report.pb.h"

namespace numafit::api_testing {

// Two NUMA nodes with four accelerators and one shared endpoint of eight tokens each; two Pods hold
// some. Every message of node_report.proto is in it at least once; it passes CheckNodeReport.
v1alpha1::NodeReportStatus SampleReport();

// A full host: 8 accelerators, 8 endpoints of 64 tokens, 32 Pods.
v1alpha1::NodeReportStatus LargeReport();

}  // namespace numafit::api_testing
