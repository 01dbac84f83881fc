package form

import "fmt"

// Validate says what is malformed in a case, beyond its JSON. What a kubelet
// itself would refuse (policies, options) is not looked at here.
func (c *Case) Validate() error {
	seen := map[int]bool{}
	for _, n := range c.NUMA {
		if n.ID < 0 || n.ID > 63 {
			return fmt.Errorf("numa: id %d is not in 0..63", n.ID)
		}
		if seen[n.ID] {
			return fmt.Errorf("numa: id %d is there twice", n.ID)
		}
		seen[n.ID] = true
	}
	if len(c.NUMA) == 0 {
		return fmt.Errorf("numa: a machine has at least one NUMA node")
	}
	if err := validateDevices(c.Devices); err != nil {
		return err
	}
	registered := map[string]bool{}
	for r := range c.Devices {
		registered[r] = true
	}
	active := map[string]bool{}
	admitted := map[string]bool{}
	for i, s := range c.Steps {
		if err := s.validate(registered, active, admitted); err != nil {
			return fmt.Errorf("steps[%d]: %w", i, err)
		}
	}
	return nil
}

func (s *Step) validate(registered, active, known map[string]bool) error {
	set := 0
	for _, is := range []bool{s.Admit != nil, s.Remove != "", s.Start != "", s.Devices != nil, s.Disconnect != "", s.Prefer != nil, s.Restart, s.Resize != nil} {
		if is {
			set++
		}
	}
	if set != 1 {
		return fmt.Errorf("one of admit, remove, start, devices, disconnect, prefer, restart, resize is wanted, %d are there", set)
	}
	if s.Observed != nil && !s.Observable() {
		return fmt.Errorf("observed stands only beside admit, start, restart and resize")
	}
	switch {
	case s.Admit != nil:
		if active[s.Admit.Name] {
			return fmt.Errorf("admit: Pod %q was admitted before and not removed", s.Admit.Name)
		}
		if err := s.Admit.validate("admit"); err != nil {
			return err
		}
		active[s.Admit.Name], known[s.Admit.Name] = true, true
	case s.Remove != "":
		if !known[s.Remove] {
			return fmt.Errorf("remove: no Pod %q", s.Remove)
		}
		delete(active, s.Remove)
	case s.Start != "":
		if !known[s.Start] {
			return fmt.Errorf("start: no Pod %q", s.Start)
		}
	case s.Resize != nil:
		if !known[s.Resize.Name] {
			return fmt.Errorf("resize: no Pod %q", s.Resize.Name)
		}
		return s.Resize.validate("resize")
	case s.Devices != nil:
		if err := validateDevices(s.Devices); err != nil {
			return err
		}
		for r := range s.Devices {
			registered[r] = true
		}
	case s.Disconnect != "":
		if !registered[s.Disconnect] {
			return fmt.Errorf("disconnect: no resource %q", s.Disconnect)
		}
	}
	return nil
}

func (p *Pod) validate(step string) error {
	if p.Name == "" {
		return fmt.Errorf("%s: a Pod needs a name", step)
	}
	if len(p.Containers) == 0 {
		return fmt.Errorf("%s: Pod %q has no containers", step, p.Name)
	}
	names := map[string]bool{}
	for _, c := range p.All() {
		if c.Name == "" || names[c.Name] {
			return fmt.Errorf("%s: container name %q is empty or there twice", step, c.Name)
		}
		names[c.Name] = true
	}
	return nil
}

func validateDevices(devices map[string][]Device) error {
	for r, list := range devices {
		ids := map[string]bool{}
		for _, d := range list {
			if d.ID == "" || ids[d.ID] {
				return fmt.Errorf("devices: %s: id %q is empty or there twice", r, d.ID)
			}
			ids[d.ID] = true
			for _, n := range d.NUMA {
				if n < 0 || n > 63 {
					return fmt.Errorf("devices: %s: %s: NUMA id %d is not in 0..63", r, d.ID, n)
				}
			}
		}
	}
	return nil
}
