package server

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is not shown to the library, it has nothing to say of.
func TestKeepsMeta(t *testing.T) {
	seconds, now := int64(3), metav1.Unix(1767225600, 0)
	for _, c := range []struct {
		name   string
		change func(obj, old *metav1.ObjectMeta)
		keeps  bool
	}{
		{"nothing", func(_, _ *metav1.ObjectMeta) {}, true},
		{"labels", func(obj, _ *metav1.ObjectMeta) { obj.Labels = map[string]string{"a": "b"} }, true},
		{"generation", func(obj, _ *metav1.ObjectMeta) { obj.Generation++ }, true},
		{"earlier generation", func(obj, _ *metav1.ObjectMeta) { obj.Generation-- }, false},
		{"name", func(obj, _ *metav1.ObjectMeta) { obj.Name = "b" }, false},
		{"namespace", func(obj, _ *metav1.ObjectMeta) { obj.Namespace = "b" }, false},
		{"UID", func(obj, _ *metav1.ObjectMeta) { obj.UID = "b" }, false},
		{"no revision", func(obj, _ *metav1.ObjectMeta) { obj.ResourceVersion = "" }, false},
		{"time", func(obj, _ *metav1.ObjectMeta) { obj.CreationTimestamp = metav1.Unix(1, 0) }, false},
		{"zone", func(obj, _ *metav1.ObjectMeta) { obj.CreationTimestamp.Time = now.In(time.FixedZone("east", 3600)) }, true},
		{"deleted", func(obj, _ *metav1.ObjectMeta) { obj.DeletionTimestamp = &now }, false},
		{"no longer deleted", func(_, old *metav1.ObjectMeta) { old.DeletionTimestamp = &now }, false},
		{"grace", func(obj, _ *metav1.ObjectMeta) { obj.DeletionGracePeriodSeconds = &seconds }, false},
		{"no grace", func(_, old *metav1.ObjectMeta) { old.DeletionGracePeriodSeconds = &seconds }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			old := &metav1.ObjectMeta{Name: "a", Namespace: "n", UID: "u", ResourceVersion: "7", Generation: 2, CreationTimestamp: now}
			obj := old.DeepCopy()
			c.change(obj, old)
			errs := validation.ValidateObjectMetaAccessorUpdate(obj, old, metadataPath)
			if keeps := keepsMeta(obj, old); keeps != c.keeps || keeps && len(errs) > 0 {
				t.Errorf("keeps %v, want %v: %v", keeps, c.keeps, errs)
			}
		})
	}
}
