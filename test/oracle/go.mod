// What is built without a Kubernetes version: the replay of recorded answers.
// The kubelet's code comes with one of mod/k1*.mod and the build tag of the same name.
module numafit.io/numafit/test/oracle

go 1.24.0
