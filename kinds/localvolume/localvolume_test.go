package localvolume

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestOrders(t *testing.T) {
	want := Order{Do: Make, Dir: "pvc-1_ns_data", Form: Directory, Size: 1 << 30}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{OrderPrefix + "pvc-1": want.String(),
		OrderPrefix + "pvc-2": "{nonsense", "other": "x"}}}
	list := Orders(n)
	if len(list) != 2 || list["pvc-1"] != want || list["pvc-2"] != (Order{}) {
		t.Errorf("got %+v", list)
	}
	done := want
	done.Done = true
	if !want.Same(done) || want.Same(Order{Do: Remove, Dir: want.Dir}) {
		t.Error("Same looks at answers, or not at what is wanted")
	}
}

func TestBelongs(t *testing.T) {
	long := DirOf("pvc-1", strings.Repeat("n", 63), strings.Repeat("c", 253))
	for dir, want := range map[string]bool{"pvc-1_ns_data": true, long: true, "pvc-1": false, "pvc-2_ns_data": false,
		"pvc-1_/../../etc": false,
		"pvc-1_..":         true, "../pvc-1_x": false, "": false, "pvc-1_a\x00": false, "pvc-1_/x": false} {
		t.Run(dir, func(t *testing.T) {
			if got := Belongs(dir, "pvc-1"); got != want {
				t.Errorf("%q: %t", dir, got)
			}
		})
	}
	if Belongs("_x", "") || Belongs(".trash_x", ".trash") {
		t.Error("a volume without a name, or with a hidden one, has no directory")
	}
}

func TestFree(t *testing.T) {
	n := &corev1.Node{}
	if _, ok := FreeOn(n); ok {
		t.Error("a node that says nothing")
	}
	n.Annotations = map[string]string{Free: "12"}
	if b, ok := FreeOn(n); !ok || b != 12 {
		t.Error(b, ok)
	}
}

func TestLabel(t *testing.T) {
	long := strings.Repeat("a", 39) + "." + strings.Repeat("b", 100)
	for _, name := range []string{"n", strings.Repeat("x", 63), long, long + "c"} {
		if bad := validation.IsValidLabelValue(Label(name)); len(bad) > 0 {
			t.Errorf("%s: %s", name, bad)
		}
	}
	if Label(long) == Label(long+"c") || Label("n") != "n" {
		t.Error("two nodes have one label")
	}
}
