package tests

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	extender "k8s.io/kube-scheduler/extender/v1"

	"numafit.io/test/lab/cluster"
	"numafit.io/test/lab/fleet"
)

// recorder is an extender that says yes to everything and remembers what it was asked. It stands in for
// numafit here because what is tested is the scheduler's side: that each file makes the real
// kube-scheduler call all verbs, in the form with node names, with TLS where the file says so.
type recorder struct {
	lab *cluster.Cluster

	mu    sync.Mutex
	calls map[string]string // verb and Pod to what was wrong with the call; "" is right
}

func (r *recorder) note(verb, pod, problem string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[verb+" "+pod] = problem
}

func (r *recorder) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /filter", func(w http.ResponseWriter, request *http.Request) {
		args := r.args(w, request, "filter")
		_ = json.NewEncoder(w).Encode(extender.ExtenderFilterResult{NodeNames: args.NodeNames})
	})
	mux.HandleFunc("POST /prioritize", func(w http.ResponseWriter, request *http.Request) {
		args := r.args(w, request, "prioritize")
		list := extender.HostPriorityList{}
		if args.NodeNames != nil {
			for _, name := range *args.NodeNames {
				score := int64(0)
				if name == favourite {
					score = 1
				}
				list = append(list, extender.HostPriority{Host: name, Score: score})
			}
		}
		_ = json.NewEncoder(w).Encode(list)
	})
	mux.HandleFunc("POST /bind", func(w http.ResponseWriter, request *http.Request) {
		args := extender.ExtenderBindingArgs{}
		err := json.NewDecoder(request.Body).Decode(&args)
		if err == nil {
			err = r.lab.Client.CoreV1().Pods(args.PodNamespace).Bind(request.Context(), &core.Binding{
				ObjectMeta: meta.ObjectMeta{Name: args.PodName, Namespace: args.PodNamespace, UID: args.PodUID},
				Target:     core.ObjectReference{Kind: "Node", Name: args.Node},
			}, meta.CreateOptions{})
		}
		result := extender.ExtenderBindingResult{}
		if err != nil {
			result.Error = err.Error()
		}
		r.note("bind", args.PodName, result.Error)
		_ = json.NewEncoder(w).Encode(result)
	})
	return mux
}

func (r *recorder) args(w http.ResponseWriter, request *http.Request, verb string) extender.ExtenderArgs {
	args := extender.ExtenderArgs{}
	if err := json.NewDecoder(request.Body).Decode(&args); err != nil || args.Pod == nil {
		r.note(verb, "?", fmt.Sprintf("not understood: %v", err))
		w.WriteHeader(http.StatusBadRequest)
		return args
	}
	problem := ""
	if args.NodeNames == nil || args.Nodes != nil {
		problem = "the call carries Node objects, not node names"
	}
	r.note(verb, args.Pod.Name, problem)
	return args
}

// favourite is where the recorder wants Pods, although the scheduler's own plugins prefer the other
// node, which is empty.
const favourite = "made-up-2"

func TestSchedulerConfigurations(t *testing.T) {
	lab := startLab(t, cluster.Options{NoKubelets: true, Fleet: &fleet.Fleet{}})
	makeNode(t, lab, "made-up-1", 100)
	makeNode(t, lab, favourite, 100)
	// The favourite is nearly full, so that without numafit's weight it would lose.
	fill := newPod("fill", demand{gpus: 90})
	fill.Spec.NodeName = favourite
	create(t, lab, fill)

	for _, test := range []struct {
		file      string
		scheduler string
		tls       bool
	}{
		{"trial.yaml", "default-scheduler", false},
		{"dedicated-profile.yaml", "numafit", false},
		{"dedicated-profile.yaml", "default-scheduler", false},
		{"tls.yaml", "default-scheduler", true},
	} {
		t.Run(test.file+" "+test.scheduler, func(t *testing.T) {
			checkSchedulerConfig(t, lab, test.file, test.scheduler, test.tls)
		})
	}
}

func checkSchedulerConfig(t *testing.T, lab *cluster.Cluster, file, scheduler string, secure bool) {
	config := filepath.Join(lab.Root, "scheduler-config", file)
	record := &recorder{lab: lab, calls: map[string]string{}}
	address, replace := serve(t, lab, record.handler(), config, secure)
	options := cluster.SchedulerOptions{Config: config, Replace: replace}
	if err := lab.StartScheduler(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	defer lab.StopScheduler()
	pod := newPod(fmt.Sprintf("asks-%d", time.Now().UnixNano()), demand{1, 0})
	pod.Spec.SchedulerName = scheduler
	create(t, lab, pod)
	eventually(t, 20*time.Second, "the Pod to be bound through "+address, func() string {
		bound := list(t, lab)[pod.Name]
		if bound.Spec.NodeName == "" {
			return fmt.Sprintf("conditions %v", bound.Status.Conditions)
		}
		return ""
	})
	if node := list(t, lab)[pod.Name].Spec.NodeName; node != favourite {
		t.Errorf("bound to %s: one point of numafit did not outweigh the default plugins", node)
	}
	record.mu.Lock()
	defer record.mu.Unlock()
	for _, verb := range []string{"filter", "prioritize", "bind"} {
		problem, called := record.calls[verb+" "+pod.Name]
		if !called {
			t.Errorf("%s was not called; calls: %v", verb, record.calls)
		} else if problem != "" {
			t.Errorf("%s: %s", verb, problem)
		}
	}
}

// serve listens where the configuration will look, and says what to replace in it.
func serve(t *testing.T, lab *cluster.Cluster, handler http.Handler, config string, secure bool) (string, map[string]string) {
	t.Helper()
	address, err := cluster.ExtenderAddress(config)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	replace := map[string]string{}
	if secure {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		serving, err := lab.Authority().Server("extender-serving", "127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		client, err := lab.Authority().Client("scheduler-to-extender", "system:kube-scheduler")
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		authority, err := os.ReadFile(lab.Authority().CAFile())
		if err != nil {
			t.Fatal(err)
		}
		pool.AppendCertsFromPEM(authority)
		certificate, err := tls.LoadX509KeyPair(serving.Cert, serving.Key)
		if err != nil {
			t.Fatal(err)
		}
		server.TLSConfig = &tls.Config{
			Certificates: []tls.Certificate{certificate},
			ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: pool,
		}
		address = "127.0.0.1:" + port
		replace = map[string]string{
			"https://" + host:                    "https://127.0.0.1",
			"/etc/kubernetes/numafit/ca.crt":     lab.Authority().CAFile(),
			"/etc/kubernetes/numafit/client.crt": client.Cert,
			"/etc/kubernetes/numafit/client.key": client.Key,
		}
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if secure {
			_ = server.ServeTLS(listener, "", "")
		} else {
			_ = server.Serve(listener)
		}
	}()
	t.Cleanup(func() { _ = server.Close() })
	return address, replace
}

// makeNode registers a Node without a kubelet.
func makeNode(t *testing.T, lab *cluster.Cluster, name string, gpus int64) {
	t.Helper()
	resources := core.ResourceList{
		core.ResourceCPU: resource.MustParse("100"), core.ResourceMemory: resource.MustParse("100Gi"),
		core.ResourcePods: resource.MustParse("1000"), gpu: *resource.NewQuantity(gpus, resource.DecimalSI),
	}
	node := &core.Node{
		ObjectMeta: meta.ObjectMeta{Name: name},
		Status: core.NodeStatus{
			Capacity: resources, Allocatable: resources,
			Conditions: []core.NodeCondition{{Type: core.NodeReady, Status: core.ConditionTrue}},
		},
	}
	if _, err := lab.Client.CoreV1().Nodes().Create(context.Background(), node, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
