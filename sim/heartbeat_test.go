package sim

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
)

// TestBegins: changes of real nodes, of which there may be thousands, are no reason to look for simulated ones.
func TestBegins(t *testing.T) {
	real := &corev1.Node{}
	simulated := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{Fake: "fake"}}}
	lost := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{Fake: "fake", Lost: "yes"}}}
	for _, x := range []struct {
		name string
		b    client.Batch
		want bool
	}{
		{"all anew", client.Batch{Reset: true}, true},
		{"nothing", client.Batch{}, false},
		{"a real node", client.Batch{Changes: []client.Change{{New: real}, {Old: real, New: real}, {Old: real}}}, false},
		{"a simulated one comes", client.Batch{Changes: []client.Change{{New: real}, {New: simulated}}}, true},
		{"it is lost", client.Batch{Changes: []client.Change{{Old: simulated, New: lost}}}, false},
		{"it is back", client.Batch{Changes: []client.Change{{Old: lost, New: simulated}}}, true},
		{"it is gone", client.Batch{Changes: []client.Change{{Old: simulated}}}, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			if got := begins(&x.b); got != x.want {
				t.Errorf("%t, want %t", got, x.want)
			}
		})
	}
}
