//go:build k134 || k135 || k136 || k137

package kubelet

import (
	"fmt"
	"reflect"
	"unsafe"
)

// setField sets an unexported field of the struct that ptr points to. The
// managers' Start does the same, and opens sockets and files besides. A field
// that is gone or has another type means that this Kubernetes version has
// drifted: panic, never guess.
func setField(ptr any, name string, value any) {
	f := field(ptr, name)
	v := reflect.ValueOf(value)
	if !v.Type().AssignableTo(f.Type()) {
		panic(driftf("%T.%s is a %s now, not a %s", ptr, name, f.Type(), v.Type()))
	}
	f.Set(v)
}

// field is an unexported field, made settable.
func field(ptr any, name string) reflect.Value {
	v := reflect.ValueOf(ptr)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		panic(driftf("%T is no pointer to a struct", ptr))
	}
	f := v.Elem().FieldByName(name)
	if !f.IsValid() {
		panic(driftf("%T has no field %s now", ptr, name))
	}
	return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
}

// drift is a panic of the judge's own, not of the kubelet.
type drift string

func driftf(format string, args ...any) drift { return drift(fmt.Sprintf(format, args...)) }
