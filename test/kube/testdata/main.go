//go:build ignore

// Writes the fixtures beside it: what the API server sends, made by its own serializers.
// In a module that requires k8s.io/api and k8s.io/apimachinery v0.36.3: go run main.go <folder>
package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	folder := os.Args[1]
	scheme := runtime.NewScheme()
	must(corev1.AddToScheme(scheme))
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	enveloped := protobuf.NewSerializer(scheme, scheme)
	raw := protobuf.NewRawSerializer(scheme, scheme)
	encode := func(s runtime.Serializer, object runtime.Object) []byte {
		var buffer bytes.Buffer
		must(s.Encode(object, &buffer))
		return buffer.Bytes()
	}
	write := func(name string, data []byte) {
		must(os.WriteFile(filepath.Join(folder, name), data, 0o644))
	}

	always := corev1.ContainerRestartPolicyAlways
	priority := int32(-5)
	stamp := metav1.NewTime(time.Unix(1795991150, 0))
	deleted := metav1.NewTime(time.Unix(1795991210, 0))
	list := func(pairs ...string) corev1.ResourceList {
		result := corev1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			result[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
		}
		return result
	}
	meta := func(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "v1", Kind: kind} }
	pod := &corev1.Pod{
		TypeMeta: meta("Pod"),
		ObjectMeta: metav1.ObjectMeta{
			Name: "train", Namespace: "team-a", UID: types.UID("640de90c"), ResourceVersion: "495",
			Generation: 3, CreationTimestamp: stamp, DeletionTimestamp: &deleted,
			Labels: map[string]string{"app": "llm"}, Annotations: map[string]string{"note": "a<b & c"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x", FieldsV1: &metav1.FieldsV1{Raw: []byte("{}")}}},
		},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{
				{Name: "sidecar", RestartPolicy: &always,
					Resources: corev1.ResourceRequirements{Limits: list("cpu", "100m")}},
				{Name: "setup"},
			},
			Containers: []corev1.Container{{
				Name: "main", Image: "registry.example/app:1", Command: []string{"a", "b"},
				Env: []corev1.EnvVar{{Name: "A", Value: "b"}},
				Resources: corev1.ResourceRequirements{
					Limits:   list("cpu", "8", "memory", "16Gi", "nvidia.com/gpu", "2"),
					Requests: list("cpu", "8", "memory", "16Gi", "nvidia.com/gpu", "2"),
					Claims:   []corev1.ResourceClaim{{Name: "net"}},
				},
			}},
			NodeName: "n1", SchedulerName: "numafit", Priority: &priority,
			NodeSelector:   map[string]string{"a": "b"},
			Resources:      &corev1.ResourceRequirements{Requests: list("cpu", "9")},
			ResourceClaims: []corev1.PodResourceClaim{{Name: "net"}},
			Tolerations:    []corev1.Toleration{{Key: "k", Operator: "Exists"}},
		},
		Status: corev1.PodStatus{
			Phase: "Running", Reason: "r", Message: "m", QOSClass: "Guaranteed",
			NominatedNodeName: "n2", StartTime: &stamp, HostIP: "10.0.0.1",
			Conditions:            []corev1.PodCondition{{Type: "Ready", Status: "False", Reason: "x"}},
			ContainerStatuses:     []corev1.ContainerStatus{{Name: "main", Ready: true}},
			InitContainerStatuses: []corev1.ContainerStatus{{Name: "sidecar"}, {Name: "setup"}},
		},
	}
	node := &corev1.Node{
		TypeMeta:   meta("Node"),
		ObjectMeta: metav1.ObjectMeta{Name: "n1", ResourceVersion: "7", Labels: map[string]string{"a": "b"}},
		Spec:       corev1.NodeSpec{Unschedulable: true, PodCIDR: "10.0.0.0/24"},
		Status: corev1.NodeStatus{
			Capacity:    list("cpu", "64", "nvidia.com/gpu", "8"),
			Allocatable: list("cpu", "63500m", "nvidia.com/gpu", "8"),
			Conditions:  []corev1.NodeCondition{{Type: "Ready", Status: "True", Reason: "KubeletReady"}},
			NodeInfo:    corev1.NodeSystemInfo{KubeletVersion: "v1.36.3", OSImage: "x"},
			Images:      []corev1.ContainerImage{{Names: []string{"i"}, SizeBytes: 5}},
		},
	}
	write("pod.pb", encode(enveloped, pod))
	write("node.pb", encode(enveloped, node))
	remaining := int64(1)
	write("podlist.pb", encode(enveloped, &corev1.PodList{
		TypeMeta: meta("PodList"),
		ListMeta: metav1.ListMeta{ResourceVersion: "500", Continue: "next==", RemainingItemCount: &remaining},
		Items:    []corev1.Pod{*pod, {ObjectMeta: metav1.ObjectMeta{Name: "other"}}},
	}))
	status := &metav1.Status{
		TypeMeta: meta("Status"), Status: "Failure", Reason: "Expired", Code: 410,
		Message: "too old resource version: 3 (9)",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: "t"}}},
	}
	write("status.pb", encode(enveloped, status))

	// The stream: every event framed by its length, the object inside in its envelope.
	var stream bytes.Buffer
	event := func(kind string, object runtime.Object) {
		frame := encode(raw, &metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: encode(enveloped, object)}})
		must(binary.Write(&stream, binary.BigEndian, uint32(len(frame))))
		stream.Write(frame)
	}
	event("ADDED", pod)
	event("MODIFIED", pod)
	event("DELETED", pod)
	event("BOOKMARK", &corev1.Pod{TypeMeta: meta("Pod"), ObjectMeta: metav1.ObjectMeta{ResourceVersion: "777"}})
	event("ERROR", status)
	write("podwatch.pb", stream.Bytes())
}
