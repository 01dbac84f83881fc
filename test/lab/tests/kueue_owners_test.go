package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"numafit.io/test/lab/cluster"
)

// Nothing on the Pods names the Workload, and it belongs to the owner of their owner: with the right to read
// Jobs the extender finds it, without it says so.
func TestKueueWorkloadOfAnOwnersOwner(t *testing.T) {
	k := startKueueLab(t, cluster.Options{}, gpusOnly)
	startNumafit(t, k.Cluster)
	k.queue(t, "wide", "16")

	k.createChain(t, "secret", "wide", 1, kueuePod("", demand{gpus: 1, rdmas: 1}))
	k.awaitPods(t, "secret-workers-", map[string]int{"running": 1})
	eventually(t, 20*time.Second, "the extender to say what it must not read", func() string {
		log, err := os.ReadFile(k.LogFile("extender"))
		if err != nil {
			return err.Error()
		}
		if !strings.Contains(string(log), "owner-unreadable") || !strings.Contains(string(log), "batch/v1 Job") {
			return "it has not said so"
		}
		return ""
	})
	if one := workloadsOf(t, "?all=true")["training"]; one.Phase != "admitted" || len(one.Pods) != 0 {
		t.Errorf("without the right: %+v", one)
	}
	k.clear(t)

	allowOwners(t, k.Cluster)
	create(t, k.Cluster, kueuePod("blocker", demand{rdmas: 1}))
	eventually(t, kueueDeadline, "the blocker to run", func() string { return notRunning(t, k.Cluster, "blocker") })
	k.createChain(t, "chain", "wide", 8, kueuePod("", demand{gpus: 1, rdmas: 1}))
	k.awaitPods(t, "chain-workers-", map[string]int{"running": 7, "unschedulable": 1})
	begin := time.Now()
	flag := awaitFlag(t, "training", "endpoints-exhausted")
	t.Logf("flagged %.1f s after it was seen to be unschedulable: %s", time.Since(begin).Seconds(), flag.Why)
	if flag.Pods["placed"] != 7 || flag.Pods["unschedulable"] != 1 || flag.Accelerators != 8 {
		t.Errorf("%+v", flag)
	}

	if err := k.Client.CoreV1().Pods("default").Delete(t.Context(), "blocker", meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	k.awaitPods(t, "chain-workers-", map[string]int{"running": 8})
	eventually(t, 20*time.Second, "the flag to go", func() string {
		one := workloadsOf(t, "?all=true")["training"]
		if one.Cause != "" || one.Pods["placed"] != 8 {
			return fmt.Sprintf("%+v", one)
		}
		return ""
	})
}

// allowOwners gives the lab's extender the right that the manifests have as a comment.
func allowOwners(t *testing.T, lab *cluster.Cluster) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(lab.Root, "deploy", "manifests", "extender-rbac.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, line := range strings.Split(string(text), "\n") {
		isFirst := strings.HasPrefix(line, "# - apiGroups: [batch]")
		isMore := len(lines) > 0 && (strings.HasPrefix(line, "# - ") || strings.HasPrefix(line, "#   "))
		if isFirst || isMore {
			lines = append(lines, strings.TrimPrefix(line, "# "))
		} else if len(lines) > 0 {
			break
		}
	}
	var rules []rbac.PolicyRule
	if err := yaml.Unmarshal([]byte(strings.Join(lines, "\n")), &rules); err != nil || len(rules) != 2 {
		t.Fatalf("extender-rbac.yaml has no rules for owners: %v %+v", err, rules)
	}
	name := meta.ObjectMeta{Name: "numafit-extender-owners"}
	roles := lab.Client.RbacV1()
	_, err = roles.ClusterRoles().Create(t.Context(), &rbac.ClusterRole{ObjectMeta: name, Rules: rules}, meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = roles.ClusterRoleBindings().Create(t.Context(), &rbac.ClusterRoleBinding{
		ObjectMeta: name,
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: name.Name},
		Subjects:   []rbac.Subject{{APIGroup: rbac.GroupName, Kind: "User", Name: "numafit-extender"}},
	}, meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
