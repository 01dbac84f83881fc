package judge

import (
	"encoding/json"
	"strings"
	"testing"

	"numafit.io/numafit/test/oracle/form"
)

const (
	checkCase = `{"numa":[{"id":0},{"id":1}],"devices":{"gpu":[{"id":"a","numa":[0]},{"id":"b","numa":[1,0]},{"id":"c","numa":null},{"id":"d","numa":[]}]},"steps":[{"admit":{"name":"p","containers":[{"name":"c"}]}}]}`
	admitted  = `{"steps":[{"pod":"p","admitted":true,"containers":[{"name":"c","affinity":[0],"preferred":true,"devices":{"gpu":["a","b","c","d"]}}]}]}`
	refused   = `{"steps":[{"pod":"p","admitted":false,"reason":"TopologyAffinityError"}]}`
)

func TestCheck(t *testing.T) {
	for name, test := range map[string]struct {
		real, said string
		exact      bool
		want       string // part of the problem; empty: agreement
	}{
		"the same":                        {real: admitted, said: admitted, exact: true},
		"the same refusal":                {real: refused, said: refused, exact: true},
		"another verdict":                 {real: admitted, said: refused, want: "admitted:"},
		"another reason":                  {real: refused, said: `{"steps":[{"pod":"p","admitted":false,"reason":"UnexpectedAdmissionError"}]}`, want: "reason:"},
		"one of the reasons":              {real: refused, said: `{"steps":[{"pod":"p","admitted":null,"reasons":["TopologyAffinityError","UnexpectedAdmissionError"]}]}`},
		"an open verdict without reasons": {real: refused, said: `{"steps":[{"pod":"p","admitted":null}]}`, want: "reason:"},
		"counts":                          {real: admitted, said: `{"steps":[{"pod":"p","admitted":true,"containers":[{"name":"c","devices":{"gpu":{"0":1,"0,1":1,"none":1,"empty":1}}}]}]}`},
		"wrong counts":                    {real: admitted, said: `{"steps":[{"pod":"p","admitted":true,"containers":[{"name":"c","devices":{"gpu":{"0":2,"none":1,"empty":1}}}]}]}`, want: "by NUMA"},
		"possible counts":                 {real: admitted, said: `{"steps":[{"pod":"p","admitted":null,"reasons":["x"],"containers":[{"name":"c","devices":{"gpu":[{"0":4},{"0":1,"0,1":1,"none":1,"empty":1}]}}]}]}`},
		"no possible count":               {real: admitted, said: `{"steps":[{"pod":"p","admitted":true,"containers":[{"name":"c","devices":{"gpu":[{"0":4},{"0":3}]}}]}]}`, want: "by NUMA"},
		"wrong ids":                       {real: admitted, said: `{"steps":[{"pod":"p","admitted":true,"containers":[{"name":"c","devices":{"gpu":["a","b","c"]}}]}]}`, want: "kubelet gave"},
		"devices where there are none":    {real: admitted, said: `{"steps":[{"pod":"p","admitted":true,"containers":[{"name":"c","devices":{"gpu":["a","b","c","d"],"nic":{"0":1}}}]}]}`, want: "kubelet gave none"},
		"another affinity":                {real: admitted, said: `{"steps":[{"pod":"p","admitted":true,"containers":[{"name":"c","affinity":null}]}]}`, want: "affinity:"},
		"not preferred":                   {real: admitted, said: `{"steps":[{"pod":"p","admitted":true,"containers":[{"name":"c","affinity":[0],"preferred":false}]}]}`, want: "preferred:"},
		"silence from a known state":      {real: admitted, said: `{"steps":[{"pod":"p","admitted":true,"containers":[{"name":"c"}]}]}`, exact: true, want: "does not say"},
		"settling":                        {real: admitted, said: `{"steps":[{"pod":"p","admitted":null,"settling":true}]}`},
		"settling over one container":     {real: admitted, said: `{"steps":[{"pod":"p","admitted":null,"settling":true}]}`, exact: true, want: "settling"},
		"a lost container":                {real: admitted, said: `{"steps":[{"pod":"p","admitted":true}]}`, want: "containers"},
		"a lost step":                     {real: admitted, said: `{"steps":[]}`, want: "steps"},
		"an error on one side":            {real: admitted, said: `{"error":"why"}`, want: "error:"},
		"an error on both":                {real: `{"error":"x"}`, said: `{"error":"y"}`},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := form.ParseCase([]byte(checkCase))
			if err != nil {
				t.Fatal(err)
			}
			real, said := form.Answer{}, claim{}
			if err := json.Unmarshal([]byte(test.real), &real); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(test.said), &said); err != nil {
				t.Fatal(err)
			}
			problem, _ := check(c, &real, &said, test.exact, &Tally{})
			if (problem == "") != (test.want == "") || !strings.Contains(problem, test.want) {
				t.Errorf("problem %q, want %q", problem, test.want)
			}
		})
	}
}

func TestAMirrorThatLeavesEverythingOpenIsWeak(t *testing.T) {
	for name, tally := range map[string]Tally{
		"verdicts":  {Asked: 1000, Null: 900},
		"unproven":  {Asked: 1000, Null: 10, Unproven: 9},
		"settling":  {Asked: 1000, Settling: 500},
		"unclaimed": {Asked: 1000, Claimed: 10, Unclaimed: 10},
	} {
		if tally.Weak() == "" {
			t.Errorf("%s: not noticed", name)
		}
	}
	usual := Tally{Asked: 343466, Null: 278, Proven: 35, Settling: 130, Claimed: 216277, Unclaimed: 443}
	if weak := usual.Weak(); weak != "" {
		t.Error(weak)
	}
}
