package storage

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Topologies that are there already are told for each pair, as upstream does, but not for millions of pairs: 30 KB of empty ones ended the
// process.
func TestTopologiesTwice(t *testing.T) {
	term := func(values ...string) corev1.TopologySelectorTerm {
		return corev1.TopologySelectorTerm{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "zone", Values: values}}}
	}
	var different, empty []corev1.TopologySelectorTerm
	for i := range 20_000 {
		different, empty = append(different, term(fmt.Sprint(i))), append(empty, corev1.TopologySelectorTerm{})
	}
	for _, tt := range []struct {
		name string
		list []corev1.TopologySelectorTerm
		want int
	}{
		{"once", []corev1.TopologySelectorTerm{term("a"), term("b"), term("a", "b")}, 0},
		{"in another order", []corev1.TopologySelectorTerm{term("a", "b"), term("b", "a"), term("a", "b")}, 3},
		{"an empty one", []corev1.TopologySelectorTerm{term("a"), {}}, 2},
		{"empty ones", empty[:3], 3 + 4 + 5},
		{"many", different, 0},
		{"many empty ones", empty, maxTwice},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := len(topologies(tt.list, field.NewPath("allowedTopologies"))); got != tt.want {
				t.Errorf("%d errors, want %d", got, tt.want)
			}
		})
	}
}
