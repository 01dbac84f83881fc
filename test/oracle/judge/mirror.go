package judge

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"numafit.io/numafit/test/oracle/form"
)

// mirror is a long-lived process that reads cases and answers them in order.
type mirror struct {
	command string
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

func startMirror(command string) (*mirror, error) {
	m := &mirror{command: command}
	return m, m.start()
}

func (m *mirror) start() error {
	words := strings.Fields(m.command)
	if len(words) == 0 {
		return fmt.Errorf("no mirror command")
	}
	m.process = exec.Command(words[0], words[1:]...)
	m.process.Stderr = os.Stderr
	dieWithParent(m.process)
	var err error
	if m.in, err = m.process.StdinPipe(); err != nil {
		return err
	}
	out, err := m.process.StdoutPipe()
	if err != nil {
		return err
	}
	m.out = bufio.NewReaderSize(out, 1<<16)
	return m.process.Start()
}

// stop waits for the process to end by itself once it has nothing to read.
func (m *mirror) stop() {
	m.in.Close()
	io.Copy(io.Discard, m.out)
	m.process.Wait()
}

// ask sends all cases and reads all answers. A mirror that dies or writes
// something else is an answer too: an error no kubelet gives.
func (m *mirror) ask(cases ...*form.Case) []claim {
	in, process := m.in, m.process
	go func() {
		w := bufio.NewWriterSize(in, 1<<16)
		for _, c := range cases {
			w.Write(form.Line(c)) // a failure shows at the other end
		}
		w.Flush()
	}()
	claims := make([]claim, len(cases))
	for i := range cases {
		line, err := m.out.ReadBytes('\n')
		if err == nil {
			d := json.NewDecoder(strings.NewReader(string(line)))
			d.DisallowUnknownFields()
			if err = d.Decode(&claims[i]); err == nil {
				claims[i].line = line
				continue
			}
			claims[i] = claim{Error: fmt.Sprintf("%s%v: %s", brokenMirror, err, line)}
			continue
		}
		process.Process.Kill()
		end := process.Wait()
		claims[i] = claim{Error: fmt.Sprintf("%sthe process ended (%v)", brokenMirror, end)}
		if err := m.start(); err != nil {
			panic(err)
		}
		for j := i + 1; j < len(cases); j++ {
			claims[j] = m.ask(cases[j])[0]
		}
		return claims
	}
	return claims
}

const brokenMirror = "broken mirror: "

func (c *claim) broken() bool { return strings.HasPrefix(c.Error, brokenMirror) }
