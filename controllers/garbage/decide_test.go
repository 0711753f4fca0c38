package garbage

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestDecide(t *testing.T) {
	ref := func(uid types.UID, f fate, blocks bool) owner {
		return owner{metav1.OwnerReference{UID: uid, BlockOwnerDeletion: &blocks}, f}
	}
	for _, tt := range []struct {
		name   string
		owners []owner
		dep    blocked
		want   todo
	}{
		{"a living owner", []owner{ref("a", solid, false)}, blocked{}, todo{}},
		{"one of two lives", []owner{ref("a", dangles, false), ref("b", solid, false)}, blocked{}, todo{drop: []types.UID{"a"}}},
		{"one lives, one waits", []owner{ref("a", waits, true), ref("b", solid, false)}, blocked{any: true}, todo{drop: []types.UID{"a"}}},
		{"all are gone", []owner{ref("a", dangles, false)}, blocked{}, todo{remove: metav1.DeletePropagationBackground}},
		{"the owner waits, nothing below", []owner{ref("a", waits, true)}, blocked{}, todo{remove: metav1.DeletePropagationBackground}},
		{"the owner waits, dependents below", []owner{ref("a", waits, true)}, blocked{any: true},
			todo{remove: metav1.DeletePropagationForeground}},
		{"a circle", []owner{ref("a", waits, true)}, blocked{any: true, leaving: true},
			todo{remove: metav1.DeletePropagationForeground, free: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := decide(tt.owners, tt.dep); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
			}
		})
	}
}
