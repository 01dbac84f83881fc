//go:build k134 || k135 || k136 || k137

package kubelet

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"numafit.io/numafit/test/oracle/form"
)

func podOf(p *form.Pod, step string) (*v1.Pod, error) {
	pod := &v1.Pod{}
	pod.Name, pod.Namespace = p.Name, "default"
	pod.UID = types.UID(p.Name + "#" + step)
	var err error
	if pod.Spec.InitContainers, err = containersOf(p.InitContainers); err != nil {
		return nil, err
	}
	if pod.Spec.Containers, err = containersOf(p.Containers); err != nil {
		return nil, err
	}
	if p.Resources != nil {
		r, err := resourcesOf(*p.Resources)
		if err != nil {
			return nil, err
		}
		pod.Spec.Resources = &r
	}
	return pod, nil
}

func containersOf(list []form.Container) ([]v1.Container, error) {
	var out []v1.Container
	for _, c := range list {
		r, err := resourcesOf(c.Resources)
		if err != nil {
			return nil, fmt.Errorf("container %s: %w", c.Name, err)
		}
		k := v1.Container{Name: c.Name, Resources: r}
		if c.RestartPolicy != "" {
			policy := v1.ContainerRestartPolicy(c.RestartPolicy)
			k.RestartPolicy = &policy
		}
		out = append(out, k)
	}
	return out, nil
}

// resourcesOf parses quantities; a missing request takes the limit, as the API
// server would have it.
func resourcesOf(r form.Resources) (v1.ResourceRequirements, error) {
	out := v1.ResourceRequirements{}
	var err error
	if out.Limits, err = quantities(r.Limits); err != nil {
		return out, err
	}
	if out.Requests, err = quantities(r.Requests); err != nil {
		return out, err
	}
	for name, q := range out.Limits {
		if _, given := out.Requests[name]; !given {
			if out.Requests == nil {
				out.Requests = v1.ResourceList{}
			}
			out.Requests[name] = q
		}
	}
	return out, nil
}

func quantities(in map[string]string) (v1.ResourceList, error) {
	if len(in) == 0 {
		return nil, nil
	}
	out := v1.ResourceList{}
	for name, s := range in {
		q, err := resource.ParseQuantity(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", name, s, err)
		}
		if q.Sign() < 0 {
			return nil, fmt.Errorf("%s: %q is below zero: the API server refuses it", name, s)
		}
		// A kubelet reads what the API server has written.
		if q, err = resource.ParseQuantity(q.String()); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", name, s, err)
		}
		out[v1.ResourceName(name)] = q
	}
	return out, nil
}
