//go:build !(k134 || k135 || k136 || k137)

package kubelet

import (
	"errors"
	"math/rand/v2"
	"time"

	"numafit.io/numafit/test/oracle/form"
)

// Minor is empty: this program was built without any Kubernetes code.
const Minor = ""

// Run cannot answer without the kubelet's code.
func Run(c *form.Case, _ *rand.Rand) form.Answer {
	return form.Answer{ID: c.ID, Error: "built without the kubelet's code: build with -modfile=mod/k136.mod -tags k136"}
}

// Time is not possible either.
func Time(*form.Case, func(time.Duration)) error {
	return errors.New("built without the kubelet's code")
}
