package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// Kueue publishes its manifests in parts that kustomize puts together. This does the same, with the
// webhooks' port, because a Service of the type ExternalName maps none.

var definitions = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// convertedKinds have a conversion webhook between v1beta1 and v1beta2.
var convertedKinds = []string{"workloads", "clusterqueues", "localqueues", "cohorts", "multikueueclusters"}

// frameworkResources are the objects that a framework's webhooks look at.
var frameworkResources = map[string]string{
	"batch/job": "jobs", "pod": "pods", "deployment": "deployments", "statefulset": "statefulsets",
}

func (c *Cluster) installKueueDefinitions(ctx context.Context, objects dynamic.Interface) error {
	paths, err := filepath.Glob(filepath.Join(binDir(c.Root), "kueue-manifests", "crd", "*.yaml"))
	if err != nil || len(paths) == 0 {
		return fmt.Errorf("no definitions in %s/kueue-manifests (run test/lab/build.sh kueue)", binDir(c.Root))
	}
	var names []string
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		definition := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &definition.Object); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		plural, _, err := unstructured.NestedString(definition.Object, "spec", "names", "plural")
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if slices.Contains(convertedKinds, plural) {
			definition.Object["spec"].(map[string]any)["conversion"] = map[string]any{
				"strategy": "Webhook",
				"webhook": map[string]any{
					"clientConfig":             map[string]any{"service": kueueServiceAt("/convert")},
					"conversionReviewVersions": []any{"v1"},
				},
			}
		}
		_, err = objects.Resource(definitions).Create(ctx, definition, meta.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("%s: %w", path, err)
		}
		names = append(names, definition.GetName())
	}
	return c.waitFor(ctx, nil, "Kueue's kinds to be served", func() (bool, error) {
		for _, name := range names {
			definition, err := objects.Resource(definitions).Get(ctx, name, meta.GetOptions{})
			if err != nil || ConditionOf(definition, "Established")["status"] != "True" {
				return false, nil
			}
		}
		return true, nil
	})
}

// installKueueWebhooks installs the webhooks of Kueue's own kinds and of the frameworks. Those of other
// kinds would answer 404 and so forbid the kinds.
func (c *Cluster) installKueueWebhooks(ctx context.Context, objects dynamic.Interface, frameworks []string) error {
	var resources []string
	for _, framework := range frameworks {
		resource, known := frameworkResources[framework]
		if !known {
			return fmt.Errorf("the lab knows no webhooks of the framework %q", framework)
		}
		resources = append(resources, resource)
	}
	path := filepath.Join(binDir(c.Root), "kueue-manifests", "webhooks.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for _, document := range strings.Split(string(text), "\n---\n") {
		configuration := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(strings.TrimPrefix(document, "---\n")), &configuration.Object); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		configuration.SetName("kueue-" + configuration.GetName())
		all, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		var kept []any
		for _, one := range all {
			webhook, isMap := one.(map[string]any)
			if isMap && keepWebhook(webhook, resources) {
				kept = append(kept, webhook)
			}
		}
		configuration.Object["webhooks"] = kept
		kind := schema.GroupVersionResource{
			Group: "admissionregistration.k8s.io", Version: "v1",
			Resource: strings.ToLower(configuration.GetKind()) + "s",
		}
		// With other frameworks than before, the old ones go; Kueue writes its authority into the new.
		err = objects.Resource(kind).Delete(ctx, configuration.GetName(), meta.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if _, err := objects.Resource(kind).Create(ctx, configuration, meta.CreateOptions{}); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// keepWebhook says whether a webhook is about Kueue's own kinds or about one of resources, and ties it
// to where Kueue listens.
func keepWebhook(webhook map[string]any, resources []string) bool {
	rules, _, _ := unstructured.NestedSlice(webhook, "rules")
	keep := false
	for _, one := range rules {
		rule, _ := one.(map[string]any)
		groups, _, _ := unstructured.NestedStringSlice(rule, "apiGroups")
		kinds, _, _ := unstructured.NestedStringSlice(rule, "resources")
		if slices.Contains(groups, "kueue.x-k8s.io") {
			keep = true
		}
		builtIn := slices.ContainsFunc(groups, func(group string) bool {
			return group == "" || group == "apps" || group == "batch"
		})
		if builtIn && slices.ContainsFunc(kinds, func(kind string) bool { return slices.Contains(resources, kind) }) {
			keep = true
			webhook["namespaceSelector"] = map[string]any{"matchExpressions": []any{map[string]any{
				"key": "kubernetes.io/metadata.name", "operator": "NotIn",
				"values": []any{"kube-system", kueueNamespace},
			}}}
		}
	}
	if keep {
		servicePath, _, _ := unstructured.NestedString(webhook, "clientConfig", "service", "path")
		webhook["clientConfig"] = map[string]any{"service": kueueServiceAt(servicePath)}
	}
	return keep
}

func kueueServiceAt(path string) map[string]any {
	return map[string]any{
		"namespace": kueueNamespace, "name": kueueService, "port": int64(kueueWebhookPort), "path": path,
	}
}
