package server_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/resource"
)

func (w *world) delete(k resource.Kind, name string, opts *metav1.DeleteOptions) (obj resource.Object, gone bool, err error) {
	e, gone, err := w.Delete(w.t.Context(), w.ask(k, name), opts)
	if err != nil {
		return nil, false, err
	}
	return e.Object, gone, nil
}

func grace(n int64) *metav1.DeleteOptions { return &metav1.DeleteOptions{GracePeriodSeconds: &n} }

func TestDelete(t *testing.T) {
	w := start(t)
	c := create(w, configMaps, configMap("a"))
	other := c.UID + "x"
	stale := "1"
	for _, opts := range []*metav1.DeleteOptions{
		{Preconditions: &metav1.Preconditions{UID: &other}}, {Preconditions: &metav1.Preconditions{ResourceVersion: &stale}}} {
		if _, _, err := w.delete(configMaps, "a", opts); reason(err) != "Conflict" {
			t.Errorf("%+v: %v", opts.Preconditions, err)
		}
	}
	if _, gone, err := w.delete(configMaps, "a", &metav1.DeleteOptions{DryRun: []string{"All"}}); err != nil || !gone ||
		w.get(configMaps, "a") == nil {
		t.Errorf("dry run: %v, %v", gone, err)
	}
	if obj, gone, err := w.delete(configMaps, "a", nil); err != nil || !gone || obj.GetUID() != c.UID {
		t.Errorf("%v, %v, %v", obj, gone, err)
	}
	if _, _, err := w.delete(configMaps, "a", nil); reason(err) != "NotFound" {
		t.Errorf("again: %v", err)
	}
	bad := metav1.DeletionPropagation("Foo")
	if _, _, err := w.delete(configMaps, "a",
		&metav1.DeleteOptions{PropagationPolicy: &bad}); reason(err) != "Invalid FieldValueNotSupported propagationPolicy" {
		t.Errorf("bad policy: %v", err)
	}
}

func TestFinalizersHold(t *testing.T) {
	w := start(t)
	c := configMap("a")
	c.Finalizers = []string{"e.example/x"}
	create(w, configMaps, c)
	obj, gone, err := w.delete(configMaps, "a", nil)
	if err != nil || gone || obj.GetDeletionTimestamp() == nil || *obj.GetDeletionGracePeriodSeconds() != 0 {
		t.Fatalf("%+v, %v, %v", obj, gone, err)
	}
	if again, gone, err := w.delete(configMaps, "a", nil); err != nil || gone || again.GetResourceVersion() != obj.GetResourceVersion() {
		t.Errorf("again: %v, %v", gone, err)
	}
	if _, err := w.merge(configMaps, "a", `{"metadata":{"finalizers":["e.example/x","e.example/y"]}}`); reason(err)[:7] != "Invalid" {
		t.Errorf("a new finalizer: %v", err)
	}
	if got, err := w.merge(configMaps, "a", `{"metadata":{"deletionTimestamp":null},"data":{"k":"v"}}`); err != nil ||
		got.GetDeletionTimestamp() == nil {
		t.Errorf("undeleted: %v, %v", got, err)
	}
	if _, err := w.Create(t.Context(), w.ask(configMaps, ""), configMap("a")); reason(err) != "AlreadyExists" ||
		err.Error()[:24] != "object is being deleted:" {
		t.Errorf("create meanwhile: %v", err)
	}
	if got, err := w.merge(configMaps, "a", `{"metadata":{"finalizers":null}}`); err != nil || len(got.GetFinalizers()) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	if w.get(configMaps, "a") != nil {
		t.Error("it stays without finalizers")
	}
}

func TestPropagation(t *testing.T) {
	w := start(t)
	yes, no := true, false
	orphan, foreground, background := metav1.DeletePropagationOrphan, metav1.DeletePropagationForeground, metav1.DeletePropagationBackground
	for i, x := range []struct {
		name string
		kind resource.Kind
		has  []string
		opts metav1.DeleteOptions
		want []string
	}{
		{"by default", configMaps, nil, metav1.DeleteOptions{}, nil},
		{"orphan", configMaps, nil, metav1.DeleteOptions{PropagationPolicy: &orphan}, []string{"orphan"}},
		{"foreground", configMaps, nil, metav1.DeleteOptions{PropagationPolicy: &foreground}, []string{"foregroundDeletion"}},
		{"background takes away orphan",
			configMaps, []string{"a/b", "orphan"}, metav1.DeleteOptions{PropagationPolicy: &background}, []string{"a/b"}},
		{"orphan there already", configMaps, []string{"orphan"}, metav1.DeleteOptions{}, []string{"orphan"}},
		{"orphan in old words", configMaps, nil, metav1.DeleteOptions{OrphanDependents: &yes}, []string{"orphan"}},
		{"kind that orphans by default", jobs, nil, metav1.DeleteOptions{}, []string{"orphan"}},
		{"such a kind, told not to", jobs, nil, metav1.DeleteOptions{OrphanDependents: &no}, nil},
		{"such a kind in the background", jobs, nil, metav1.DeleteOptions{PropagationPolicy: &background}, nil},
		{"such a kind, foreground already", jobs, []string{"foregroundDeletion"}, metav1.DeleteOptions{}, []string{"foregroundDeletion"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			name := fmt.Sprint("x", i)
			obj := x.kind.New(x.kind.Info().GVK)
			obj.SetName(name)
			obj.SetFinalizers(x.has)
			create(w, x.kind, obj)
			got, gone, err := w.delete(x.kind, name, &x.opts)
			if err != nil {
				t.Fatal(err)
			}
			if gone != (x.want == nil) || !gone && !slices.Equal(got.GetFinalizers(), x.want) {
				t.Errorf("%d: gone %v, finalizers %v, want %v", i, gone, got.GetFinalizers(), x.want)
			}
		})
	}
}

func TestPodsAreGivenTime(t *testing.T) {
	now := time.Unix(1000, 0)
	w := start(t, func(c *testcluster.Config) { c.Now = func() time.Time { return now } })
	create(w, pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "n"}})
	step := func(what string, opts *metav1.DeleteOptions, wantGone bool, wantGrace, wantAt int64) {
		t.Helper()
		obj, gone, err := w.delete(pods, "p", opts)
		if err != nil {
			t.Fatal(err)
		}
		if gone != wantGone || *obj.GetDeletionGracePeriodSeconds() != wantGrace || obj.GetDeletionTimestamp().Unix() != wantAt ||
			obj.GetGeneration() != 2 {
			t.Errorf("%s: gone %v, grace %d, at %d, generation %d", what, gone, *obj.GetDeletionGracePeriodSeconds(),
				obj.GetDeletionTimestamp().Unix(), obj.GetGeneration())
		}
	}
	step("first", grace(20), false, 20, 1020)
	step("longer", grace(100), false, 20, 1020)
	step("not said", nil, false, 20, 1020)
	now = now.Add(5 * time.Second)
	step("shorter", grace(10), false, 10, 1010)
	step("shorter than what has passed", grace(3), false, 1, 1005)
	if _, err := w.merge(pods, "p", `{"metadata":{"labels":{"a":"b"}}}`); err != nil || w.get(pods, "p") == nil {
		t.Errorf("an update took the pod away: %v", err)
	}
	step("now", grace(0), true, 0, 1005)
	if w.get(pods, "p") != nil {
		t.Error("it stays")
	}
	create(w, pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}})
	step("nowhere", nil, true, 0, 1005)
}

// A grace that is longer than times can tell is a long one, and can be shortened.
func TestPodsAreGivenAllTime(t *testing.T) {
	now := time.Unix(1000, 0)
	w := start(t, func(c *testcluster.Config) { c.Now = func() time.Time { return now } })
	create(w, pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "n"}})
	for _, s := range []struct{ grace, least, most int64 }{{9_999_999_999, 2000, 1 << 40}, {30, 1030, 1030}} {
		obj, _, err := w.delete(pods, "p", grace(s.grace))
		if err != nil {
			t.Fatal(err)
		}
		if at := obj.GetDeletionTimestamp().Unix(); at < s.least || at > s.most || *obj.GetDeletionGracePeriodSeconds() != s.grace {
			t.Errorf("with %d seconds it goes at %d, %d seconds", s.grace, at, *obj.GetDeletionGracePeriodSeconds())
		}
	}
}

func TestNamespaceEnds(t *testing.T) {
	w := start(t)
	for policy, want := range map[metav1.DeletionPropagation]string{
		metav1.DeletePropagationForeground: metav1.FinalizerDeleteDependents, metav1.DeletePropagationOrphan: metav1.FinalizerOrphanDependents} {
		create(w, namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: want[:6]}})
		obj, _, err := w.delete(namespaces, want[:6], &metav1.DeleteOptions{PropagationPolicy: &policy})
		if err != nil || !slices.Equal(obj.GetFinalizers(), []string{want}) {
			t.Errorf("%s: finalizers %v, %v", policy, obj.GetFinalizers(), err)
		}
	}
	create(w, namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
	obj, gone, err := w.delete(namespaces, "x", nil)
	if err != nil || gone || obj.(*corev1.Namespace).Status.Phase != corev1.NamespaceTerminating || obj.GetDeletionTimestamp() == nil {
		t.Fatalf("%+v, %v, %v", obj, gone, err)
	}
	ns := resource.Clone(obj.(*corev1.Namespace))
	ns.Spec.Finalizers = nil
	e, _, err := w.Update(t.Context(), sub(w.ask(namespaces, "x"), "finalize"), ns)
	if err != nil || len(e.Object.(*corev1.Namespace).Spec.Finalizers) != 0 {
		t.Fatalf("%+v, %v", e, err)
	}
	if w.get(namespaces, "x") != nil {
		t.Error("it stays")
	}
}

func TestDeleteAdmission(t *testing.T) {
	refuse := true
	w := start(t, func(c *testcluster.Config) {
		c.Admission = plugin(nil, func(r *admission.Request) error {
			if r.Op == admission.Delete && refuse {
				if r.Object != nil || r.Old == nil || r.Name != "a" {
					t.Errorf("asked %+v", r)
				}
				return fmt.Errorf("no")
			}
			return nil
		})
	})
	create(w, configMaps, configMap("a"))
	if _, _, err := w.delete(configMaps, "a", nil); err == nil {
		t.Error("deleted all the same")
	}
	refuse = false
	if _, gone, err := w.delete(configMaps, "a", nil); err != nil || !gone {
		t.Errorf("%v, %v", gone, err)
	}
}

// Who deletes a collection names no object, and admission is told no name.
func TestDeleteCollectionAdmission(t *testing.T) {
	w := start(t, func(c *testcluster.Config) {
		c.Admission = plugin(nil, func(r *admission.Request) error {
			if r.Op == admission.Delete && (r.Name != "" || r.Old.GetName() != "a") {
				t.Errorf("asked %+v", r)
			}
			if r.Op == admission.Delete {
				return r.Forbidden(fmt.Errorf("no"))
			}
			return nil
		})
	})
	create(w, configMaps, configMap("a"))
	_, err := w.DeleteCollection(t.Context(), w.ask(configMaps, ""), nil, nil)
	if want := `configmaps "Unknown" is forbidden: no`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// A panic about one of a collection is an answer, not the end of the program.
func TestDeleteCollectionPanics(t *testing.T) {
	w := start(t, func(c *testcluster.Config) {
		c.Admission = plugin(nil, func(r *admission.Request) error {
			if r.Op == admission.Delete {
				panic("oh")
			}
			return nil
		})
	})
	create(w, configMaps, configMap("a"))
	if _, err := w.DeleteCollection(t.Context(), w.ask(configMaps, ""), nil, nil); !apierrors.IsInternalError(err) {
		t.Errorf("got %v", err)
	}
}

// TestDeleteCollectionOfThePast reads what was there at a revision, and says when nobody knows any more.
func TestDeleteCollectionOfThePast(t *testing.T) {
	w := start(t)
	a := create(w, configMaps, configMap("a"))
	create(w, configMaps, configMap("b"))
	which := &metav1.ListOptions{ResourceVersion: a.ResourceVersion}
	l, err := w.DeleteCollection(t.Context(), w.ask(configMaps, ""), nil, which)
	if err != nil || len(l.Entries) != 1 {
		t.Fatalf("%v: %+v", err, l)
	}
	which.ResourceVersion += "000"
	if _, err = w.DeleteCollection(t.Context(), w.ask(configMaps, ""), nil, which); err == nil {
		t.Error("a revision that has not come yet is taken")
	}
}

func TestDeleteCollection(t *testing.T) {
	w := start(t)
	for i := range 100 {
		c := configMap(fmt.Sprint("c", i))
		c.Labels = map[string]string{"odd": fmt.Sprint(i % 2)}
		create(w, configMaps, c)
	}
	l, err := w.DeleteCollection(t.Context(), w.ask(configMaps, ""), nil, &metav1.ListOptions{LabelSelector: "odd=1"})
	if err != nil || len(l.Entries) != 50 {
		t.Fatalf("%v, %v", l, err)
	}
	if l, err = w.DeleteCollection(t.Context(), w.ask(configMaps, ""), nil, &metav1.ListOptions{Limit: 10}); err != nil ||
		len(l.Entries) != 10 {
		t.Fatalf("%v, %v", l, err)
	}
	if l, err := w.List(t.Context(), w.ask(configMaps, ""), nil); err != nil || len(l.Entries) != 40 {
		t.Errorf("%d left, %v", len(l.Entries), err)
	}
}
