// Package tests runs numafit in a real cluster: real kube-scheduler, real kubelets. Build first
// (hack/lab.sh build, and numafit itself); then
//
//	cd test/lab && go test ./tests
package tests

import (
	"os"
	"testing"

	"numafit.io/test/lab/cluster"
)

func TestMain(m *testing.M) {
	cluster.Main()
	os.Exit(m.Run())
}
