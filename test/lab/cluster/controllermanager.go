package cluster

import (
	"context"
	"strings"

	rbac "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"numafit.io/test/lab/children"
)

const controllerManagerURL = "https://127.0.0.1:10257"

// StartControllerManager starts the real kube-controller-manager with the given controllers only, by
// default those of Jobs: job-controller and garbage-collector-controller. One that runs already is
// stopped first. Everything else that a cluster has from it stays absent (see docs/lab.md).
func (c *Cluster) StartControllerManager(ctx context.Context, controllers ...string) error {
	c.StopControllerManager()
	if len(controllers) == 0 {
		controllers = []string{"job-controller", "garbage-collector-controller"}
	}
	if err := c.grantControllers(ctx, controllers); err != nil {
		return err
	}
	c.Log("starting kube-controller-manager with %s", strings.Join(controllers, ", "))
	kubeconfig := c.kubeconfigOf("controller-manager")
	child, err := children.Start(children.Spec{
		Name: "kube-controller-manager", Path: c.binary("kube-controller-manager"),
		Log: c.LogFile("kube-controller-manager"),
		Args: []string{
			"--controllers=" + strings.Join(controllers, ","), "--leader-elect=false",
			"--kubeconfig=" + kubeconfig,
			"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=127.0.0.1", "--secure-port=10257", "--cert-dir=" + c.path("controller-certs"),
			"--kube-api-qps=500", "--kube-api-burst=1000",
		},
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.controllerManager = child
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	client := insecureClient()
	return c.waitFor(ctx, child, "kube-controller-manager to be healthy", func() (bool, error) {
		return isOK(client, controllerManagerURL+"/healthz"), nil
	})
}

// StopControllerManager asks kube-controller-manager to end; a no-op when it does not run.
func (c *Cluster) StopControllerManager() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.controllerManager.Stop(stopGrace)
}

// grantControllers gives the manager's own user what its controllers' service accounts are given by the
// API server: the lab has no service accounts for them.
func (c *Cluster) grantControllers(ctx context.Context, controllers []string) error {
	for _, controller := range controllers {
		role := "system:controller:" + controller
		if controller == "garbage-collector-controller" {
			role = "system:controller:generic-garbage-collector"
		}
		binding := &rbac.ClusterRoleBinding{
			ObjectMeta: meta.ObjectMeta{Name: "lab:" + controller},
			RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbac.Subject{
				{APIGroup: rbac.GroupName, Kind: "User", Name: "system:kube-controller-manager"},
			},
		}
		_, err := c.Client.RbacV1().ClusterRoleBindings().Create(ctx, binding, meta.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}
