package cluster

import (
	"maps"
	"slices"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kueue's objects, without Kueue's Go types: its module wants other versions of Kubernetes' libraries.

// Names that Kueue reads and writes on jobs and Pods.
const (
	KueueQueueLabel         = "kueue.x-k8s.io/queue-name"
	KueuePodSetLabel        = "kueue.x-k8s.io/podset"
	KueueJobUIDLabel        = "kueue.x-k8s.io/job-uid"
	KueueLocalQueueLabel    = "kueue.x-k8s.io/local-queue-name"
	KueueClusterQueueLabel  = "kueue.x-k8s.io/cluster-queue-name"
	KueuePrebuiltLabel      = "kueue.x-k8s.io/prebuilt-workload-name"
	KueueGroupLabel         = "kueue.x-k8s.io/pod-group-name"
	KueueWorkloadAnnotation = "kueue.x-k8s.io/workload"
	KueueGroupTotal         = "kueue.x-k8s.io/pod-group-total-count"
	KueueRoleHash           = "kueue.x-k8s.io/role-hash"
	KueueMinParallelism     = "kueue.x-k8s.io/job-min-parallelism"
	KueueAdmissionGate      = "kueue.x-k8s.io/admission"
	KueueTopologyGate       = "kueue.x-k8s.io/topology"
)

const kueueVersion = "v1beta2"

// KueueKind is one of Kueue's kinds, by its plural, in the version that Kueue stores.
func KueueKind(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: kueueVersion, Resource: plural}
}

func newKueueObject(kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	metadata := map[string]any{"name": name}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kueue.x-k8s.io/" + kueueVersion, "kind": kind, "metadata": metadata, "spec": spec,
	}}
}

// NewTopology is a Topology with these node labels, from the widest level to the narrowest.
func NewTopology(name string, labels ...string) *unstructured.Unstructured {
	var levels []any
	for _, label := range labels {
		levels = append(levels, map[string]any{"nodeLabel": label})
	}
	return newKueueObject("Topology", "", name, map[string]any{"levels": levels})
}

// NewResourceFlavor is a ResourceFlavor of all nodes; with a topology, Kueue itself places its Pods.
func NewResourceFlavor(name, topology string) *unstructured.Unstructured {
	spec := map[string]any{}
	if topology != "" {
		spec["topologyName"] = topology
		// Kueue wants some label beside a topology; kubelets set this one.
		spec["nodeLabels"] = map[string]any{core.LabelOSStable: "linux"}
	}
	return newKueueObject("ResourceFlavor", "", name, spec)
}

// NewClusterQueue is a ClusterQueue for all namespaces with this quota, resource to quantity, in one
// flavor, behind these AdmissionChecks.
func NewClusterQueue(name, flavor string, quota map[string]string, checks ...string) *unstructured.Unstructured {
	var covered, quotas []any
	for _, resource := range slices.Sorted(maps.Keys(quota)) {
		covered = append(covered, resource)
		quotas = append(quotas, map[string]any{"name": resource, "nominalQuota": quota[resource]})
	}
	spec := map[string]any{
		"namespaceSelector": map[string]any{},
		"resourceGroups": []any{map[string]any{
			"coveredResources": covered,
			"flavors":          []any{map[string]any{"name": flavor, "resources": quotas}},
		}},
	}
	if len(checks) > 0 {
		var names []any
		for _, check := range checks {
			names = append(names, map[string]any{"name": check})
		}
		spec["admissionChecksStrategy"] = map[string]any{"admissionChecks": names}
	}
	return newKueueObject("ClusterQueue", "", name, spec)
}

// NewLocalQueue is a LocalQueue that leads to a ClusterQueue.
func NewLocalQueue(namespace, name, clusterQueue string) *unstructured.Unstructured {
	return newKueueObject("LocalQueue", namespace, name, map[string]any{"clusterQueue": clusterQueue})
}

// NewAdmissionCheck is an AdmissionCheck that waits for the controller of this name.
func NewAdmissionCheck(name, controller string) *unstructured.Unstructured {
	return newKueueObject("AdmissionCheck", "", name, map[string]any{"controllerName": controller})
}

// KueuePodSet is one podset of a Workload that nobody but its creator made.
type KueuePodSet struct {
	Name  string
	Count int
	// MinCount is the least that may be admitted; 0 is all or nothing.
	MinCount int
	Template core.PodSpec
}

// NewWorkload is a Workload without an owner.
func NewWorkload(namespace, name, queue string, podSets ...KueuePodSet) (*unstructured.Unstructured, error) {
	var list []any
	for _, podSet := range podSets {
		template, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&podSet.Template)
		if err != nil {
			return nil, err
		}
		entry := map[string]any{
			"name": podSet.Name, "count": int64(podSet.Count), "template": map[string]any{"spec": template},
		}
		if podSet.MinCount > 0 {
			entry["minCount"] = int64(podSet.MinCount)
		}
		list = append(list, entry)
	}
	return newKueueObject("Workload", namespace, name, map[string]any{"queueName": queue, "podSets": list}), nil
}

// NewQueuedJob is a Job of so many Pods at once that waits for a LocalQueue. Its template is the Pod's
// labels, annotations and spec.
func NewQueuedJob(name, queue string, pods int, pod *core.Pod) *batch.Job {
	parallelism, completions, suspend := int32(pods), int32(pods), true
	return &batch.Job{
		ObjectMeta: meta.ObjectMeta{
			Name: name, Namespace: pod.Namespace, Labels: map[string]string{KueueQueueLabel: queue},
		},
		Spec: batch.JobSpec{
			Parallelism: &parallelism, Completions: &completions, Suspend: &suspend,
			Template: core.PodTemplateSpec{
				ObjectMeta: meta.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations},
				Spec:       pod.Spec,
			},
		},
	}
}

// ConditionOf is the condition of this type in an object's status; nil when there is none.
func ConditionOf(object *unstructured.Unstructured, conditionType string) map[string]any {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, one := range conditions {
		condition, _ := one.(map[string]any)
		if condition["type"] == conditionType {
			return condition
		}
	}
	return nil
}
