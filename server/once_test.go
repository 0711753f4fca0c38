package server

import (
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// Errors of the same text count once since 1.37, but for definitions and the like, whose rules are not declared.
func TestErrorsOnce(t *testing.T) {
	for _, c := range []struct {
		minor int
		kind  resource.Kind
		want  int
	}{{36, kinds.Pods, 3}, {37, kinds.Pods, 2}, {37, kinds.CustomResourceDefinitions, 3}} {
		on, err := features.New(c.minor, nil)
		if err != nil {
			t.Fatal(err)
		}
		a, b := field.Required(field.NewPath("a"), ""), field.Required(field.NewPath("b"), "")
		if got := toldOnce(on, &Request{Kind: c.kind}, field.ErrorList{a, b, a}); len(got) != c.want {
			t.Errorf("1.%d %s: %v", c.minor, c.kind.Info().Plural, got)
		}
	}
}

// TestMetadataAgain counts what an update with a bad label and a bad finalizer is told, as a 1.36 told it, if nothing else is said: most
// kinds' rules for updates begin with those for new objects, but not all do.
func TestMetadataAgain(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "a", Namespace: "ns", UID: "u", ResourceVersion: "1"}
	bad := *meta.DeepCopy()
	bad.Labels, bad.Finalizers = map[string]string{"a b": "c"}, []string{"x y"}
	for _, c := range []struct {
		kind                      resource.Kind
		sub                       string
		old, obj                  resource.Object
		labels, format, qualified int
		in                        int
	}{
		{kinds.ConfigMaps, "", &corev1.ConfigMap{ObjectMeta: meta}, &corev1.ConfigMap{ObjectMeta: bad}, 4, 2, 2, 36},
		{kinds.Pods, "", &corev1.Pod{ObjectMeta: meta}, &corev1.Pod{ObjectMeta: bad}, 4, 2, 2, 36},
		{kinds.Services, "", &corev1.Service{ObjectMeta: meta}, &corev1.Service{ObjectMeta: bad}, 3, 1, 1, 36},
		{kinds.LimitRanges, "", &corev1.LimitRange{ObjectMeta: meta}, &corev1.LimitRange{ObjectMeta: bad}, 3, 2, 1, 36},
		{kinds.CronJobs, "status", &batchv1.CronJob{ObjectMeta: meta}, &batchv1.CronJob{ObjectMeta: bad}, 2, 1, 0, 36},
		{kinds.PersistentVolumes, "", &corev1.PersistentVolume{ObjectMeta: meta}, &corev1.PersistentVolume{ObjectMeta: bad}, 4, 3, 2, 36},
		{kinds.Nodes, "status", &corev1.Node{ObjectMeta: meta}, &corev1.Node{ObjectMeta: bad}, 3, 1, 1, 36},
		{kinds.Jobs, "", &batchv1.Job{ObjectMeta: meta}, &batchv1.Job{ObjectMeta: bad}, 4, 2, 2, 36},
		{kinds.Jobs, "", &batchv1.Job{ObjectMeta: meta}, &batchv1.Job{ObjectMeta: bad}, 3, 1, 1, 37},
	} {
		on, err := features.New(c.in, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := rules{&Core{Config: Config{Kinds: resource.For(on, nil, c.kind)}}}
		told := map[string]int{}
		for _, e := range s.checkMeta(&Request{Kind: c.kind, Sub: c.sub}, c.obj, c.old) {
			told[e.Field]++
		}
		got := [3]int{told["metadata.labels"], told["metadata.finalizers"], told["metadata.finalizers[0]"]}
		if want := [3]int{c.labels, c.format, c.qualified}; got != want {
			t.Errorf("%s %s: %v, want %v", c.kind.Info().Plural, c.sub, got, want)
		}
	}
}

// TestOrderOfMetadata: up to 1.36 a bad finalizer is told by the rules for all objects, for changed ones, and twice by those for new ones.
func TestOrderOfMetadata(t *testing.T) {
	on, err := features.New(36, nil)
	if err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Name: "a", Namespace: "ns", UID: "u", ResourceVersion: "1"}
	bad := *meta.DeepCopy()
	bad.Finalizers = []string{"x y"}
	bad.GenerateName, bad.UID = "A_/", "v"
	const list, one, name, uid = "metadata.finalizers", "metadata.finalizers[0]", "metadata.generateName", "metadata.uid"
	for _, c := range []struct {
		kind     resource.Kind
		obj, old resource.Object
		want     []string
	}{
		{kinds.ConfigMaps, &corev1.ConfigMap{ObjectMeta: bad}, &corev1.ConfigMap{ObjectMeta: meta},
			[]string{name, list, uid, uid, one, name, list, one}},
		{kinds.Nodes, &corev1.Node{ObjectMeta: bad}, &corev1.Node{ObjectMeta: meta}, []string{name, list, uid, name, list, one, uid, one}},
	} {
		t.Run(c.kind.Info().Plural, func(t *testing.T) {
			s := rules{&Core{Config: Config{Kinds: resource.For(on, nil, c.kind)}}}
			var got []string
			for _, e := range s.checkMeta(&Request{Kind: c.kind}, c.obj, c.old) {
				if e.Field != "metadata.namespace" {
					got = append(got, e.Field)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("told of %q, want %q", got, c.want)
			}
		})
	}
}

// A generateName whose kind does not look at it must still be able to stand in a path.
func TestGenerateNameInPath(t *testing.T) {
	s := rules{&Core{Config: Config{Kinds: resource.For(nil, nil, kinds.ReplicationControllers)}}}
	for _, c := range []struct {
		base string
		want int
	}{{"a-", 0}, {"A_", 0}, {"a/b", 1}, {"a%", 1}} {
		t.Run(c.base, func(t *testing.T) {
			rc := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Name: "a", GenerateName: c.base, Namespace: "ns"}}
			if errs := s.checkMeta(&Request{Kind: kinds.ReplicationControllers}, rc, nil); len(errs) != c.want {
				t.Errorf("got %v", errs)
			}
		})
	}
}

// What is wrong is told up to a size, and each error as a whole.
func TestErrorsAreBounded(t *testing.T) {
	long := field.Invalid(field.NewPath("a"), strings.Repeat("x", maxText/3), "no")
	short := field.Required(field.NewPath("a"), "")
	for _, tt := range []struct {
		name string
		errs field.ErrorList
		want int
	}{
		{"none", nil, 0},
		{"few", field.ErrorList{long, long, long}, 3},
		{"many short ones", slices.Repeat(field.ErrorList{short}, 2000), maxTold},
		{"many", slices.Repeat(field.ErrorList{long}, 1000), 3},
		{"one that is larger", field.ErrorList{field.Invalid(field.NewPath("a"), strings.Repeat("x", 2*maxText), "no"), long}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := fit(tt.errs); got != tt.want {
				t.Errorf("%d errors, want %d", got, tt.want)
			}
		})
	}
}
