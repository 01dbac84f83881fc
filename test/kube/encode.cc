#include "test/kube/encode.h"

#include "kube/core_v1.pb.h"

namespace numafit::kube_testing {
namespace {

template <typename Map>
void Fill(const api::ResourceList& list, Map* map) {
  for (const auto& [name, quantity] : list) (*map)[name].set_text(quantity.ToString());
}

void Fill(const api::ObjectMeta& meta, k8s::ObjectMeta* out) {
  out->set_name(meta.name);
  out->set_namespace_name(meta.namespace_);
  out->set_uid(meta.uid);
  out->set_resource_version(meta.resource_version);
  if (meta.creation_time != 0) out->mutable_creation_timestamp()->set_seconds(meta.creation_time);
  if (meta.deletion_time != 0) out->mutable_deletion_timestamp()->set_seconds(meta.deletion_time);
  for (const auto& [key, value] : meta.labels) (*out->mutable_labels())[key] = value;
  for (const auto& [key, value] : meta.annotations) (*out->mutable_annotations())[key] = value;
  for (const api::OwnerReference& owner : meta.owners) {
    k8s::OwnerReference& reference = *out->add_owner_references();
    reference.set_kind(owner.kind);
    reference.set_name(owner.name);
    reference.set_uid(owner.uid);
    reference.set_controller(owner.controller);
    reference.set_api_version(owner.api_version);
  }
}

void Fill(const api::Container& container, k8s::Container* out) {
  out->set_name(container.name);
  Fill(container.resources.limits, out->mutable_resources()->mutable_limits());
  Fill(container.resources.requests, out->mutable_resources()->mutable_requests());
  if (container.restart_always) out->set_restart_policy("Always");
}

}  // namespace

std::string EncodePod(const api::Pod& pod) {
  k8s::Pod message;
  Fill(pod.metadata, message.mutable_metadata());
  k8s::PodSpec& spec = *message.mutable_spec();
  spec.set_node_name(pod.node_name);
  spec.set_scheduler_name(pod.scheduler_name);
  spec.set_priority(pod.priority);
  for (const auto& container : pod.init_containers) Fill(container, spec.add_init_containers());
  for (const auto& container : pod.containers) Fill(container, spec.add_containers());
  for (const std::string& gate : pod.scheduling_gates) {
    spec.add_scheduling_gates()->set_name(gate);
  }
  for (const auto& [key, value] : pod.node_selector) (*spec.mutable_node_selector())[key] = value;
  k8s::PodStatus& status = *message.mutable_status();
  status.set_phase(pod.status.phase);
  status.set_reason(pod.status.reason);
  status.set_message(pod.status.message);
  status.set_qos_class(pod.status.qos_class);
  status.set_nominated_node_name(pod.status.nominated_node_name);
  for (int i = 0; i < pod.status.container_statuses; ++i) status.add_container_statuses();
  for (const auto& condition : pod.status.conditions) {
    k8s::PodCondition& out = *status.add_conditions();
    out.set_type(condition.type);
    out.set_status(condition.status);
    out.set_reason(condition.reason);
    out.set_message(condition.message);
  }
  return message.SerializeAsString();
}

std::string EncodeNode(const api::Node& node) {
  k8s::Node message;
  Fill(node.metadata, message.mutable_metadata());
  message.mutable_spec()->set_unschedulable(node.unschedulable);
  k8s::NodeStatus& status = *message.mutable_status();
  Fill(node.capacity, status.mutable_capacity());
  Fill(node.allocatable, status.mutable_allocatable());
  for (const auto& condition : node.conditions) {
    k8s::NodeCondition& out = *status.add_conditions();
    out.set_type(condition.type);
    out.set_status(condition.status);
  }
  status.mutable_node_info()->set_kubelet_version(node.kubelet_version);
  return message.SerializeAsString();
}

std::string Envelope(std::string_view kind, std::string_view raw) {
  k8s::Unknown unknown;
  unknown.mutable_type_meta()->set_api_version("v1");
  unknown.mutable_type_meta()->set_kind(std::string(kind));
  unknown.set_raw(std::string(raw));
  return std::string("k8s\0", 4) + unknown.SerializeAsString();
}

std::string EncodeStatus(int code, std::string_view reason, std::string_view message) {
  k8s::Status status;
  status.set_status("Failure");
  status.set_code(code);
  status.set_reason(std::string(reason));
  status.set_message(std::string(message));
  return Envelope("Status", status.SerializeAsString());
}

std::string EncodeList(std::string_view kind, const std::vector<std::string>& items,
                       std::string_view resource_version, std::string_view continue_token) {
  // PodList and NodeList have the same shape; the items are merged as they are.
  k8s::PodList list;
  list.mutable_metadata()->set_resource_version(std::string(resource_version));
  list.mutable_metadata()->set_continue_token(std::string(continue_token));
  std::string raw = list.SerializeAsString();
  for (const std::string& item : items) {
    k8s::RawExtension piece;  // field 1 …
    piece.set_raw(item);
    std::string bytes = piece.SerializeAsString();
    bytes[0] = '\x12';  // … moved to field 2
    raw += bytes;
  }
  return Envelope(kind, raw);
}

std::string EncodeEvent(std::string_view type, std::string_view enveloped) {
  k8s::WatchEvent event;
  event.set_type(std::string(type));
  event.mutable_object()->set_raw(std::string(enveloped));
  const std::string bytes = event.SerializeAsString();
  std::string frame;
  for (const unsigned shift : {24U, 16U, 8U, 0U}) {
    frame += static_cast<char>(static_cast<std::uint32_t>(bytes.size()) >> shift & 0xffU);
  }
  return frame + bytes;
}

}  // namespace numafit::kube_testing
