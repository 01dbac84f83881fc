// The agent's life: waits for changes, looks, publishes.
#pragma once

#include "agent/collector.h"
#include "agent/config.h"
#include "agent/health.h"
#include "agent/publisher.h"

namespace numafit::agent {

// Runs in the caller's thread until `stop_fd` is readable. `config` names the paces; the rest is
// done by the collector and the publisher. `health` is told about it; it may be null.
void RunReports(const AgentConfig& config, Collector& collector, Publisher& publisher, int stop_fd,
                Health* health = nullptr);

}  // namespace numafit::agent
