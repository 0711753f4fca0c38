package apply

import (
	"bytes"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kloop-dev/kloop/resource"
)

// KeepTimes restores the timestamps of obj's managedFields from old when nothing but timestamps differs between
// the two, so that a write without effect is none. A resourceVersion that obj does not carry is no difference.
func KeepTimes(old, obj resource.Object) {
	if old == nil {
		return
	}
	was, is := old.GetManagedFields(), obj.GetManagedFields()
	if len(is) == 0 || len(was) != len(is) || !sameOwners(was, is) || sameTimes(was, is) {
		return
	}
	if sameBut(old, obj) {
		obj.SetManagedFields(was)
	}
}

func sameOwners(was, is []metav1.ManagedFieldsEntry) bool {
	for i := range is {
		a, b := &was[i], &is[i]
		if a.Manager != b.Manager || a.Operation != b.Operation || a.APIVersion != b.APIVersion ||
			a.Subresource != b.Subresource || a.FieldsType != b.FieldsType || !bytes.Equal(rawFields(a), rawFields(b)) {
			return false
		}
	}
	return true
}

func sameTimes(was, is []metav1.ManagedFieldsEntry) bool {
	for i := range is {
		if !was[i].Time.Equal(is[i].Time) {
			return false
		}
	}
	return true
}

// rawFields returns the bytes of an entry's field set; they are shared.
func rawFields(e *metav1.ManagedFieldsEntry) []byte {
	if e.FieldsV1 == nil {
		return nil
	}
	return e.FieldsV1.GetRawBytes()
}

// sameBut compares everything but managedFields and the resourceVersion.
func sameBut(old, obj resource.Object) bool {
	fields, rv := obj.GetManagedFields(), obj.GetResourceVersion()
	defer func() { obj.SetManagedFields(fields); obj.SetResourceVersion(rv) }()
	obj.SetManagedFields(old.GetManagedFields())
	obj.SetResourceVersion(old.GetResourceVersion())
	if u, ok := obj.(runtime.Unstructured); ok {
		v, ok := old.(runtime.Unstructured)
		return ok && reflect.DeepEqual(u.UnstructuredContent(), v.UnstructuredContent())
	}
	return resource.Same(old, obj)
}
