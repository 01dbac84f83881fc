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
		"the same":                            {real: admitted, said: admitted, exact: true},
		"the same refusal":                    {real: refused, said: refused, exact: true},
		"another verdict":                     {real: admitted, said: refused, want: "admitted:"},
		"another reason":                      {real: refused, said: `{"steps":[{"pod":"p","admitted":false,"reason":"UnexpectedAdmissionError"}]}`, want: "reason:"},
		"one of the reasons":                  {real: refused, said: `{"steps":[{"pod":"p","admitted":null,"reasons":["TopologyAffinityError","UnexpectedAdmissionError"]}]}`},
		"an open verdict without reasons":     {real: refused, said: `{"steps":[{"pod":"p","admitted":null}]}`, want: "reason:"},
		"counts":                              {real: admitted, said: `{"steps":[{"pod":"p","admitted":true,"containers":[{"name":"c","devices":{"gpu":{"0":1,"0,1":1,"none":1,"empty":1}}}]}]}`},
		"wrong counts":                        {real: admitted, said: `{"steps":[{"pod":"p","admitted":true,"containers":[{"name":"c","devices":{"gpu":{"0":2,"none":1,"empty":1}}}]}]}`, want: "by NUMA"},
		"possible counts":                     {real: admitted, said: `{"steps":[{"pod":"p","admitted":null,"reasons":["x"],"containers":[{"name":"c","devices":{"gpu":[{"0":4},{"0":1,"0,1":1,"none":1,"empty":1}]}}]}]}`},
		"no possible count":                   {real: admitted, said: `{"steps":[{"pod":"p","admitted":true,"containers":[{"name":"c","devices":{"gpu":[{"0":4},{"0":3}]}}]}]}`, want: "by NUMA"},
		"wrong ids":                           {real: admitted, said: `{"steps":[{"pod":"p","admitted":true,"containers":[{"name":"c","devices":{"gpu":["a","b","c"]}}]}]}`, want: "kubelet gave"},
		"devices where there are none":        {real: admitted, said: `{"steps":[{"pod":"p","admitted":true,"containers":[{"name":"c","devices":{"gpu":["a","b","c","d"],"nic":{"0":1}}}]}]}`, want: "kubelet gave none"},
		"another affinity":                    {real: admitted, said: `{"steps":[{"pod":"p","admitted":true,"containers":[{"name":"c","affinity":null}]}]}`, want: "affinity:"},
		"not preferred":                       {real: admitted, said: `{"steps":[{"pod":"p","admitted":true,"containers":[{"name":"c","affinity":[0],"preferred":false}]}]}`, want: "preferred:"},
		"silence from a known state":          {real: admitted, said: `{"steps":[{"pod":"p","admitted":true,"containers":[{"name":"c"}]}]}`, exact: true, want: "does not say"},
		"settling":                            {real: admitted, said: `{"steps":[{"pod":"p","admitted":null,"settling":true}]}`},
		"unsupported, and there is an answer": {real: admitted, said: `{"steps":[{"pod":"p","admitted":null,"unsupported":true}]}`, want: "unsupported"},
		"unsupported, and an error":           {real: `{"error":"x"}`, said: `{"error":"y","unsupported":true}`},
		"settling over one container":         {real: admitted, said: `{"steps":[{"pod":"p","admitted":null,"settling":true}]}`, exact: true, want: "settling"},
		"a lost container":                    {real: admitted, said: `{"steps":[{"pod":"p","admitted":true}]}`, want: "containers"},
		"a lost step":                         {real: admitted, said: `{"steps":[]}`, want: "steps"},
		"an error on one side":                {real: admitted, said: `{"error":"why"}`, want: "error:"},
		"an error on both":                    {real: `{"error":"x"}`, said: `{"error":"y"}`},
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

// What the static managers add to an answer.
func TestCheckOfManagers(t *testing.T) {
	const (
		memory  = `[{"type":"memory","numa":[0],"size":7}]`
		state   = `[{"numa":0,"assignments":1,"cells":[0],"free":{"memory":3}}]`
		other   = `[{"numa":0,"assignments":1,"cells":[0],"free":{"memory":4}}]`
		start   = `{"numa":[{"id":0}],"cpuPolicy":"static","memoryPolicy":"Static","steps":[`
		admit   = `{"admit":{"name":"p","containers":[{"name":"c"}]}}`
		of      = `{"pod":"p","admitted":true,"containers":[{"name":"c","affinity":[0],"preferred":true`
		real    = of + `,"cpus":"1-2","memory":` + memory + `}],"defaultCpus":"0,3","memoryState":` + state + `}`
		refusal = `{"pod":"p","admitted":false,"reason":"SMTAlignmentError","left":[{"name":"c","cpus":"1"}],"defaultCpus":"0,2"}`
		again   = `{"restarted":true,"readmitted":[` + of + `,"cpus":"1-2"}]}],"defaultCpus":"0,3"}`
	)
	restart := start + admit + `,{"restart":true}]}`
	late := start + `{"admit":{"name":"o","containers":[{"name":"c"},{"name":"d"}]}},{"remove":"o"},` + admit + `]}`
	held := `{"pod":"o","admitted":true,"containers":[{"name":"c","affinity":[0],"preferred":true,"memory":` + memory + `},{"name":"d","affinity":[0],"preferred":true,"memory":` + memory + `}],"memoryState":` + state + `},{},`
	for name, test := range map[string]struct {
		c, real, said string
		sets          bool // the state was not known
		want          string
	}{
		"the same":                      {real: real, said: real},
		"other CPUs":                    {real: real, said: strings.Replace(real, "1-2", "1,3", 1), want: "cpus:"},
		"no CPUs":                       {real: real, said: strings.Replace(real, `"cpus":"1-2",`, "", 1), want: "cpus: they are determined"},
		"no CPUs, from a set":           {real: real, said: strings.Replace(real, `"cpus":"1-2",`, "", 1), sets: true},
		"CPUs where there are none":     {real: strings.Replace(real, `"cpus":"1-2",`, "", 1), said: real, want: "cpus:"},
		"other memory":                  {real: real, said: strings.Replace(real, `"size":7`, `"size":8`, 1), want: "memory:"},
		"no memory":                     {real: real, said: strings.Replace(real, `,"memory":`+memory, "", 1), want: "memory: it is determined"},
		"another default set":           {real: real, said: strings.Replace(real, "0,3", "3", 1), want: "defaultCpus:"},
		"no default set":                {real: real, said: strings.Replace(real, `,"defaultCpus":"0,3"`, "", 1), want: "defaultCpus: they are determined"},
		"another book":                  {real: real, said: strings.Replace(real, state, other, 1), want: "memoryState:"},
		"no book":                       {real: real, said: strings.Replace(real, `,"memoryState":`+state, "", 1), want: "memoryState: it is determined"},
		"no book, from a set":           {real: real, said: strings.Replace(real, `,"memoryState":`+state, "", 1), sets: true},
		"two releases before":           {c: late, real: held + real, said: held + `{"pod":"p","admitted":null,"reasons":["UnexpectedAdmissionError"],"containers":[{"name":"c"}]}`},
		"the same refusal":              {real: refusal, said: refusal},
		"a refusal with nothing left":   {real: refusal, said: `{"pod":"p","admitted":false,"reason":"SMTAlignmentError","left":[]}`, want: "left:"},
		"a refusal that says no more":   {real: refusal, said: `{"pod":"p","admitted":false,"reason":"SMTAlignmentError"}`},
		"a restart":                     {c: restart, real: real + `,` + again, said: real + `,` + again},
		"another Pod after a restart":   {c: restart, real: real + `,` + again, said: real + `,` + strings.Replace(again, `"p"`, `"q"`, 1), want: "admitted again: pod"},
		"other CPUs after a restart":    {c: restart, real: real + `,` + again, said: real + `,` + strings.Replace(again, "1-2", "1", 1), want: "admitted again: container c: cpus"},
		"Pods that may not be there":    {c: restart, real: real + `,` + again, said: real + `,{"restarted":true}`, sets: true},
		"Pods that are there":           {c: restart, real: real + `,` + again, said: real + `,{"restarted":true}`, want: "1 Pods are admitted again"},
		"a kubelet that does not start": {c: restart, real: real + `,{"restarted":false}`, said: real + `,` + again, want: "restarted:"},
		"the end of a process":          {c: start + admit + `,{"remove":"p"}]}`, real: `{"pod":"p","admitted":false,"reason":"<panic>"}`, said: `{"pod":"p","admitted":false,"reason":"<panic>"},{}`},
		"an end that is not seen":       {real: `{"pod":"p","admitted":false,"reason":"<panic>"}`, said: real, want: "admitted:"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.c == "" {
				test.c = start + admit + `]}`
			}
			c, err := form.ParseCase([]byte(test.c))
			if err != nil {
				t.Fatal(err)
			}
			real, said := form.Answer{}, claim{}
			if err := json.Unmarshal([]byte(`{"steps":[`+test.real+`]}`), &real); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(`{"steps":[`+test.said+`]}`), &said); err != nil {
				t.Fatal(err)
			}
			problem, _ := check(c, &real, &said, !test.sets, &Tally{})
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
		"CPUs":      {Asked: 1000, CPUs: foretold{Said: 10, Open: 1}},
		"memory":    {Asked: 1000, Memory: foretold{Said: 10, Open: 1}},
		"states":    {Asked: 1000, States: foretold{Said: 10, Open: 1}},
	} {
		if tally.Weak() == "" {
			t.Errorf("%s: not noticed", name)
		}
	}
	usual := Tally{Asked: 343466, Null: 278, Proven: 35, Settling: 130, Claimed: 216277, Unclaimed: 443, CPUs: foretold{Said: 1000, Open: 20, OpenOfSets: 900}}
	if weak := usual.Weak(); weak != "" {
		t.Error(weak)
	}
}
