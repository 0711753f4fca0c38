package server_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestLargeNumbersInPatches: a number that is too large for its field loses its upper bits in a strategic patch; other patches are
// refused, as JSON is that has one.
func TestLargeNumbersInPatches(t *testing.T) {
	w := start(t)
	create(w, pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}})
	for _, c := range []struct {
		name  string
		kind  types.PatchType
		patch string
		want  int32
	}{
		{"strategic", types.StrategicMergePatchType, `{"spec":{"priority":4294967297}}`, 1},
		{"strategic, negative", types.StrategicMergePatchType, `{"spec":{"priority":-2147483649}}`, 2147483647},
		{"strategic, of another type", types.StrategicMergePatchType, `{"spec":{"priority":"x"}}`, 0},
		{"merge", types.MergePatchType, `{"spec":{"priority":4294967297}}`, 0},
		{"JSON", types.JSONPatchType, `[{"op":"add","path":"/spec/priority","value":4294967297}]`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, _, err := w.Patch(t.Context(), w.ask(pods, "p"), c.kind, []byte(c.patch), false)
			if c.want == 0 {
				if reason(err) != "Invalid FieldValueInvalid patch" {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := e.Object.(*corev1.Pod).Spec.Priority; got == nil || *got != c.want {
				t.Errorf("priority %v, want %d", got, c.want)
			}
		})
	}
}

// TestCallsWarn: the body of a subresource may repeat owners as little as an object may.
func TestCallsWarn(t *testing.T) {
	w := start(t)
	create(w, pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}})
	e := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p", OwnerReferences: make([]metav1.OwnerReference, 2)}}
	if _, err := w.Call(t.Context(), sub(w.ask(pods, "p"), "eviction"), "create", e); err != nil {
		t.Fatal(err)
	}
	if len(w.warns) != 1 || !strings.Contains(w.warns[0], "duplicate entries;") {
		t.Errorf("warnings %q", w.warns)
	}
}
