package gaps

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/resource"
)

// writer says who wrote the field that changed: the manager that owns it now, as far as ownership tells; among several
// the one whose entry the write changed, then the newest.
func writer(was, is resource.Object, path string) string {
	steps := strings.Split(strings.NewReplacer("[", ".[", "]", "").Replace(path), ".")
	name, best := "unknown", [3]int64{-1}
	for _, m := range is.GetManagedFields() {
		rank := [3]int64{reaches(m.FieldsV1, steps), 0, 0}
		if !slices.ContainsFunc(was.GetManagedFields(), func(o metav1.ManagedFieldsEntry) bool {
			return o.Manager == m.Manager && o.Operation == m.Operation && o.Subresource == m.Subresource && o.Time.Equal(m.Time) &&
				sameFields(o.FieldsV1, m.FieldsV1)
		}) {
			rank[1] = 1
		}
		if m.Time != nil {
			rank[2] = m.Time.Unix()
		}
		if slices.Compare(rank[:], best[:]) > 0 {
			name, best = m.Manager, rank
		}
	}
	return name
}

// reaches says how far down a path a set of owned fields goes.
func reaches(f *metav1.FieldsV1, steps []string) (depth int64) {
	if f == nil {
		return 0
	}
	var at map[string]any
	if json.Unmarshal(f.Raw, &at) != nil {
		return 0
	}
	for i := range steps {
		// Names may have dots in them: annotations and labels do.
		for j := len(steps); j > i; j-- {
			if next, ok := at["f:"+strings.Join(steps[i:j], ".")].(map[string]any); ok {
				at, depth = next, int64(j)
				break
			}
		}
		if depth <= int64(i) {
			break
		}
	}
	return depth
}

func sameFields(a, b *metav1.FieldsV1) bool {
	return a == b || a != nil && b != nil && bytes.Equal(a.Raw, b.Raw)
}

// tree is an object as nested maps.
func tree(obj resource.Object) map[string]any {
	if t, ok := words.Tree(obj); ok {
		return t
	}
	t, err := runtime.DefaultUnstructuredConverter.ToUnstructured(resource.Opened(obj))
	if err != nil {
		return nil
	}
	return t
}

// diff tells the leaves in which two trees differ. Lists are compared item by item.
func diff(was, is any, path string, tell func(path, was, is string)) {
	a, isMap := was.(map[string]any)
	b, both := is.(map[string]any)
	if !isMap || !both {
		x, xs := was.([]any)
		y, ys := is.([]any)
		if xs && ys && len(x) == len(y) {
			for i := range x {
				diff(x[i], y[i], fmt.Sprintf("%s[%d]", path, i), tell)
			}
			return
		}
		if s, t := leaf(was), leaf(is); s != t {
			tell(path, s, t)
		}
		return
	}
	for key := range keysOf(a, b) {
		at := strings.TrimPrefix(path+"."+key, ".")
		if !silent[at] && !strings.HasSuffix(at, "Time") {
			diff(a[key], b[key], at, tell)
		}
	}
}

// silent are fields that change with every write, or by themselves.
var silent = map[string]bool{"metadata.resourceVersion": true, "metadata.managedFields": true, "metadata.generation": true,
	"status.observedGeneration":                              true,
	"metadata.annotations.deployment.kubernetes.io/revision": true}

// keysOf is the keys of two maps.
func keysOf(a, b map[string]any) map[string]bool {
	keys := make(map[string]bool, len(a)+len(b))
	for k := range a {
		keys[k] = true
	}
	for k := range b {
		keys[k] = true
	}
	return keys
}

// leaf is a value as text.
func leaf(v any) string {
	if v == nil {
		return "(unset)"
	}
	s := fmt.Sprint(v)
	if len(s) > 4*maxValue {
		s = s[:4*maxValue]
	}
	return s
}
