//go:build k134 || k135 || k136 || k137

package kubelet

import (
	"fmt"
	"sync"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
)

// Feature gates belong to the process, cases run side by side. Some gates are
// only looked at while a manager is made: for those it is enough that managers
// are made one after the other. A case with another gate runs alone.
var (
	making sync.Mutex
	alone  sync.RWMutex
)

var lookedAtWhileMaking = map[string]bool{
	"CPUManagerPolicyAlphaOptions":      true,
	"CPUManagerPolicyBetaOptions":       true,
	"TopologyManagerPolicyAlphaOptions": true,
	"TopologyManagerPolicyBetaOptions":  true,
}

// gateSets divides a case's gates, those that are at their default left out.
func gateSets(want map[string]bool) (whileMaking, throughout map[string]bool, err error) {
	if len(want) == 0 {
		return nil, nil, nil
	}
	known := utilfeature.DefaultMutableFeatureGate.GetAll()
	whileMaking, throughout = map[string]bool{}, map[string]bool{}
	for _, name := range sortedKeys(want) {
		spec, is := known[featuregate.Feature(name)]
		switch {
		case !is:
			return nil, nil, fmt.Errorf("featureGates: unrecognized feature gate: %s", name)
		case spec.LockToDefault && spec.Default != want[name]:
			return nil, nil, fmt.Errorf("featureGates: %s is locked to %v", name, spec.Default)
		case spec.Default == want[name]:
		case lookedAtWhileMaking[name]:
			whileMaking[name] = want[name]
		default:
			throughout[name] = want[name]
		}
	}
	return whileMaking, throughout, nil
}

// setGates sets them and returns what sets them back.
func setGates(want map[string]bool) (func(), error) {
	if len(want) == 0 {
		return func() {}, nil
	}
	known := utilfeature.DefaultMutableFeatureGate.GetAll()
	defaults := map[string]bool{}
	for name := range want {
		defaults[name] = known[featuregate.Feature(name)].Default
	}
	back := func() {
		if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(defaults); err != nil {
			panic(drift(err.Error()))
		}
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(want); err != nil {
		back()
		return nil, fmt.Errorf("featureGates: %w", err)
	}
	return back, nil
}

// withGatesOfMaking runs what makes managers.
func (n *node) withGatesOfMaking(do func() error) error {
	making.Lock()
	defer making.Unlock()
	back, err := setGates(n.gates)
	if err != nil {
		return err
	}
	defer back()
	return do()
}
