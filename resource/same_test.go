package resource

import (
	"math/rand"
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"
)

// randomly fills API types. What is not to be filled is left empty.
func randomly(seed int64) *randfill.Filler {
	return randfill.New().RandSource(rand.NewSource(seed)).NilChance(0.6).NumElements(0, 2).Funcs(
		func(q *apiresource.Quantity, c randfill.Continue) {
			*q = *apiresource.NewQuantity(c.Int63n(3), apiresource.DecimalSI)
		},
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(c.Int63n(3), 0) },
		func(t *metav1.MicroTime, c randfill.Continue) {
			*t = metav1.NewMicroTime(metav1.Unix(c.Int63n(3), 0).Time)
		},
		func(*runtime.RawExtension, randfill.Continue) {},
		func(s *string, c randfill.Continue) { *s = []string{"", "a", "b"}[c.Intn(3)] },
	)
}

// differ changes one thing somewhere in a value, or nothing that counts.
func differ(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && r.Intn(4) > 0 {
			differ(r, v.Elem())
		} else if v.CanSet() {
			v.SetZero()
		}
	case reflect.Struct:
		if f := v.Field(r.Intn(v.NumField())); f.CanSet() {
			differ(r, f)
		}
	case reflect.Slice:
		if v.Len() > 0 && r.Intn(4) > 0 {
			differ(r, v.Index(r.Intn(v.Len())))
		} else {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	default:
		if v.CanSet() {
			v.SetZero()
		}
	}
}

// Same says what upstream's comparison says.
func TestSame(t *testing.T) {
	yes := 0
	for seed := range int64(400) {
		for _, of := range []func() Object{
			func() Object { return &corev1.Pod{} }, func() Object { return &appsv1.Deployment{} }, func() Object { return &corev1.Node{} },
		} {
			a := of()
			randomly(seed).Fill(a)
			for i := range int64(8) {
				b := a.DeepCopyObject().(Object)
				for r := rand.New(rand.NewSource(seed*10 + i)); r.Intn(3) > 0; {
					differ(r, reflect.ValueOf(b).Elem())
				}
				want := equality.Semantic.DeepEqual(a, b)
				if want {
					yes++
				}
				if got, back := Same(a, b), Same(b, a); got != want || back != want {
					t.Fatalf("%v and %v, want %v:\n%v\n%v", got, back, want, a, b)
				}
				if x, y := reflect.ValueOf(a).Elem().Interface(), reflect.ValueOf(b).Elem().Interface(); Same(x, y) != want {
					t.Fatalf("by value not %v", want)
				}
			}
		}
	}
	if yes < 1000 || yes > 9000 {
		t.Errorf("%d of 9600 are the same: not worth comparing", yes)
	}
}

func TestSameOdd(t *testing.T) {
	one, nan := 1.5, 0.0
	nan /= nan
	type recursive struct{ Next *recursive }
	type amounts = map[string]apiresource.Quantity
	type tree = map[string]any
	for _, p := range [][2]any{
		{nil, nil}, {nil, 1}, {1, int64(1)}, {"a", "a"}, {uint8(1), uint8(2)}, {one, one}, {nan, nan}, {[2]int{1, 2}, [2]int{1, 2}},
		{tree{"a": []any{int64(1), "b"}}, tree{"a": []any{int64(1), "b"}}}, {tree{"a": nil}, tree{"b": nil}},
		{tree{"a": 1}, tree{"a": int64(1)}},
		{map[string]string(nil), map[string]string{}}, {[]byte(nil), []byte{}}, {[]byte("a"), []byte("b")},
		{[]any{nil}, []any{nil}}, {[]any{nil}, []any{1}}, {(*int)(nil), new(int)}, {new(int), new(int)},
		{&recursive{&recursive{}}, &recursive{&recursive{}}}, {&recursive{&recursive{}}, &recursive{}},
		{apiresource.MustParse("1000m"), apiresource.MustParse("1")}, {metav1.NewFieldsV1("{}"), metav1.NewFieldsV1("{}")},
		{amounts{"a": apiresource.MustParse("1")}, amounts{"a": apiresource.MustParse("1000m")}},
		{amounts{"a": apiresource.MustParse("1")}, amounts{"a": apiresource.MustParse("2")}},
	} {
		if got, want := Same(p[0], p[1]), equality.Semantic.DeepEqual(p[0], p[1]); got != want {
			t.Errorf("%#v and %#v: %v, want %v", p[0], p[1], got, want)
		}
	}
}

func BenchmarkSame(b *testing.B) {
	cpu := corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("10m")}
	d := &appsv1.Deployment{}
	d.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "main", Image: "app", Env: []corev1.EnvVar{{Name: "A", Value: "1"}}, Resources: corev1.ResourceRequirements{Requests: cpu},
	}}
	o := d.DeepCopy()
	for name, f := range map[string]func(a, b any) bool{"own": Same, "upstream": equality.Semantic.DeepEqual} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f(&d.Spec, &o.Spec)
			}
		})
	}
}
