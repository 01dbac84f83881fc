//go:build k134 || k135 || k136 || k137

package kubelet

import (
	"errors"
	"time"

	"numafit.io/numafit/test/oracle/form"
)

// Time plays the case and says how long the topology manager's Admit took,
// admission by admission: hints of all managers, merge and allocation, and the
// release of what Pods that are gone had.
func Time(c *form.Case, took func(time.Duration)) error {
	a := runTimed(c, nil, took)
	if a.Error != "" {
		return errors.New(a.Error)
	}
	return nil
}
