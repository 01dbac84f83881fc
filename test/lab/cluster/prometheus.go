package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"time"

	"numafit.io/test/lab/children"
)

const prometheusAddress = "127.0.0.1:9090"

// Prometheus is a real one that scrapes the extender and judges by deploy/prometheus, with every minute
// of it made a second.
type Prometheus struct {
	child  *children.Child
	client *http.Client
}

// Alert is one alert as Prometheus has it.
type Alert struct {
	Labels      map[string]string
	Annotations map[string]string
	State       string // "pending" or "firing"
}

// durations are those by which alerts wait and look back; the thresholds stay.
var durations = regexp.MustCompile(`(?m)(for: |\[)(\d+)([mh])(\]|$)`)

// minutesToSeconds makes tests short. Hours become minutes.
func minutesToSeconds(rules string) string {
	return durations.ReplaceAllStringFunc(rules, func(found string) string {
		return strings.NewReplacer("m", "s", "h", "m").Replace(found)
	})
}

// StartPrometheus starts Prometheus with deploy/prometheus/scrape.yaml and rules.yaml and waits until it
// answers. The caller stops it.
func (c *Cluster) StartPrometheus(ctx context.Context) (*Prometheus, error) {
	program, err := exec.LookPath("prometheus")
	if err != nil {
		return nil, fmt.Errorf("%w (hack/install.sh installs it)", err)
	}
	if err := c.configurePrometheus(); err != nil {
		return nil, err
	}
	c.Log("starting prometheus")
	child, err := children.Start(children.Spec{
		Name: "prometheus", Path: program, Log: c.LogFile("prometheus"),
		Args: []string{
			"--config.file=" + c.path("prometheus", "prometheus.yaml"),
			"--storage.tsdb.path=" + c.path("prometheus", "data"),
			"--web.listen-address=" + prometheusAddress,
		},
	})
	if err != nil {
		return nil, err
	}
	p := &Prometheus{child: child, client: &http.Client{Timeout: 5 * time.Second}}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err = c.waitFor(ctx, child, "prometheus to be ready", func() (bool, error) {
		return isOK(p.client, "http://"+prometheusAddress+"/-/ready"), nil
	})
	if err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// Stop ends Prometheus; what it has gathered is of no use to anybody.
func (p *Prometheus) Stop() { p.child.Kill() }

func (c *Cluster) configurePrometheus() error {
	if err := os.MkdirAll(c.path("prometheus"), 0o755); err != nil {
		return err
	}
	files := filepath.Join(c.Root, "deploy", "prometheus")
	rules, err := os.ReadFile(filepath.Join(files, "rules.yaml"))
	if err != nil {
		return err
	}
	short := minutesToSeconds(string(rules))
	if err := os.WriteFile(c.path("prometheus", "rules.yaml"), []byte(short), 0o644); err != nil {
		return err
	}
	scrape, err := os.ReadFile(filepath.Join(files, "scrape.yaml"))
	if err != nil {
		return err
	}
	text := string(scrape)
	for from, to := range map[string]string{
		`numafit-extender.numafit-system.svc:8889`: ReadAddress,
		"scrape_interval: 15s":                     "scrape_interval: 1s",
		"evaluation_interval: 15s":                 "evaluation_interval: 1s",
	} {
		if !strings.Contains(text, from) {
			return fmt.Errorf("deploy/prometheus/scrape.yaml does not contain %q", from)
		}
		text = strings.ReplaceAll(text, from, to)
	}
	return os.WriteFile(c.path("prometheus", "prometheus.yaml"), []byte(text), 0o644)
}

// Firing lists the alerts that fire now, by name.
func (p *Prometheus) Firing(ctx context.Context) ([]Alert, error) {
	var answer struct{ Alerts []Alert }
	if err := p.get(ctx, "alerts", &answer); err != nil {
		return nil, err
	}
	var firing []Alert
	for _, alert := range answer.Alerts {
		if alert.State == "firing" {
			firing = append(firing, alert)
		}
	}
	sort.Slice(firing, func(i, j int) bool {
		return firing[i].Labels["alertname"] < firing[j].Labels["alertname"]
	})
	return firing, nil
}

// Rules counts the rules and says what is wrong with those that are not healthy; one that was not
// evaluated yet is of unknown health.
func (p *Prometheus) Rules(ctx context.Context) (count int, problems []string, err error) {
	var answer struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	if err := p.get(ctx, "rules", &answer); err != nil {
		return 0, nil, err
	}
	for _, group := range answer.Groups {
		for _, rule := range group.Rules {
			count++
			if rule.Health != "ok" {
				problems = append(problems, fmt.Sprintf("%s is %s: %s", rule.Name, rule.Health, rule.LastError))
			}
		}
	}
	return count, problems, nil
}

// Scraped says how many series of a metric Prometheus has that were scraped a few times.
func (p *Prometheus) Scraped(ctx context.Context, metric string) (int, error) {
	var answer struct{ Result []any }
	err := p.get(ctx, "query?query="+url.QueryEscape("count_over_time("+metric+"[5s]) > 2"), &answer)
	return len(answer.Result), err
}

// Dashboard asks what the panels of deploy/prometheus/dashboard.json ask, and returns how many series
// each query has.
func (p *Prometheus) Dashboard(ctx context.Context, root string) (map[string]int, error) {
	text, err := os.ReadFile(filepath.Join(root, "deploy", "prometheus", "dashboard.json"))
	if err != nil {
		return nil, err
	}
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		return nil, fmt.Errorf("dashboard.json: %w", err)
	}
	series := map[string]int{}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			var answer struct{ Result []any }
			query := strings.ReplaceAll(target.Expr, "$job", "numafit-extender")
			if err := p.get(ctx, "query?query="+url.QueryEscape(query), &answer); err != nil {
				return nil, err
			}
			series[target.Expr] = len(answer.Result)
		}
	}
	return series, nil
}

// get reads the data of an answer of Prometheus' API.
func (p *Prometheus) get(ctx context.Context, what string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+prometheusAddress+"/api/v1/"+what, nil)
	if err != nil {
		return err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: into}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("prometheus, %s: %w", what, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("prometheus, %s: %s", what, answer.Error)
	}
	return nil
}
