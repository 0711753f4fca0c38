package apply

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Equal sets are shared, and what is read is what was written, whatever else is known.
func TestKnownSets(t *testing.T) {
	text := func(i int) string { return fmt.Sprintf(`{"f:metadata":{"f:labels":{".":{},"f:l%d":{}}}}`, i) }
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 2 * len(knownSets) {
				want := text(i)
				s, ok := setOf(&metav1.ManagedFieldsEntry{FieldsV1: metav1.NewFieldsV1(want)})
				if got := string(s.appendJSON(nil)); !ok || got != want {
					t.Errorf("read %s, want %s", got, want)
				}
				if got := fieldsOf(s).GetRawString(); got != want {
					t.Errorf("written %s, want %s", got, want)
				}
			}
		})
	}
	all.Wait()
	one, _ := parseSet([]byte(text(1)))
	first, second := fieldsOf(one), fieldsOf(one)
	if first != second {
		t.Error("the same set is written twice")
	}
	if _, ok := setOf(&metav1.ManagedFieldsEntry{FieldsV1: metav1.NewFieldsV1(`{"f:b":{}, "f:a":{}}`)}); ok {
		t.Error("what is none is read")
	}
	long := `{"f:data":{"f:` + strings.Repeat("x", longestKnown) + `":{}}}`
	s, ok := setOf(&metav1.ManagedFieldsEntry{FieldsV1: metav1.NewFieldsV1(long)})
	if k, _ := known([]byte(long)); !ok || k != nil || fieldsOf(s).GetRawString() != long {
		t.Error("a long set is kept, or not read")
	}
}
