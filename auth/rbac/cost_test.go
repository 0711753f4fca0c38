package rbac

import (
	"fmt"
	"runtime"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Rules of three lists of 700 stand for 343 million permissions. Comparing them must neither fill the memory nor take long,
// and must still say yes to who holds everything.
func TestManyPermissions(t *testing.T) {
	var many []string
	for i := range 700 {
		many = append(many, fmt.Sprint("x", i))
	}
	wanted := []rbacv1.PolicyRule{{APIGroups: many, Resources: many, Verbs: many}}
	var few []rbacv1.PolicyRule
	for range 300 {
		few = append(few, rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"deployments", "x1"}, Verbs: []string{"get", "x1"}})
	}
	halves := []rbacv1.PolicyRule{{APIGroups: many[:350], Resources: []string{"*"}, Verbs: []string{"*"}},
		{APIGroups: many[350:], Resources: []string{"*"}, Verbs: []string{"*"}}}
	for _, tt := range []struct {
		name      string
		held      []rbacv1.PolicyRule
		ok, known bool
	}{
		{"everything", everything, true, true}, {"nothing", nil, false, true}, {"other things", few, false, true},
		{"in two halves", halves, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			ok, missing, err := covers(tt.held, wanted)
			runtime.ReadMemStats(&after)
			if ok != tt.ok || (err == nil) != tt.known || len(missing) > maxMissing {
				t.Errorf("%s: %v, %d missing, %v", tt.name, ok, len(missing), err)
			}
			if spent := after.TotalAlloc - before.TotalAlloc; spent > 64<<20 {
				t.Errorf("%s: %d MiB", tt.name, spent>>20)
			}
		})
	}
}
