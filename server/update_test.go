package server_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/view"
)

func TestUpdateChecksRevision(t *testing.T) {
	w := start(t)
	old := create(w, configMaps, configMap("a", "k", "1"))
	next := resource.Clone(old)
	next.Data["k"] = "2"
	got := update(w, configMaps, next)
	if got.Data["k"] != "2" || got.ResourceVersion == old.ResourceVersion || got.UID != old.UID {
		t.Errorf("got %+v", got)
	}
	stale := resource.Clone(old)
	stale.Data["k"] = "3"
	if _, _, err := w.Update(t.Context(), w.ask(configMaps, "a"), stale); reason(err) != "Conflict" {
		t.Errorf("a stale update: %v", err)
	}
	if got := update(w, configMaps, configMap("a", "k", "4")); got.Data["k"] != "4" || got.CreationTimestamp != old.CreationTimestamp {
		t.Errorf("an unconditional update: %+v", got)
	}
	other := configMap("a")
	other.UID = "another"
	gone := configMap("none")
	gone.UID = "it-had-one"
	for _, x := range []struct {
		obj  *corev1.ConfigMap
		url  string
		want string
	}{{other, "a", "Conflict"}, {configMap("b"), "a", "BadRequest"}, {configMap("none"), "none", "NotFound"}, {gone, "none", "NotFound"}} {
		if _, _, err := w.Update(t.Context(), w.ask(configMaps, x.url), x.obj); reason(err) != x.want {
			t.Errorf("%s at %s: %v", x.obj.Name, x.url, err)
		}
	}
}

func TestNothingToUpdate(t *testing.T) {
	w := start(t)
	old := create(w, configMaps, configMap("a", "k", "1"))
	before := w.view.Revision()
	same := configMap("a", "k", "1")
	if got := update(w, configMaps, same); got.ResourceVersion != old.ResourceVersion {
		t.Errorf("revision %s, was %s", got.ResourceVersion, old.ResourceVersion)
	}
	r := w.ask(configMaps, "a")
	r.Manager = "somebody else"
	if _, _, err := w.Update(t.Context(), r, configMap("a", "k", "1")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.merge(configMaps, "a", `{"data":{"k":"1"}}`); err != nil {
		t.Fatal(err)
	}
	if w.view.Revision() != before {
		t.Error("an update of nothing wrote")
	}
}

func TestGenerationCountsSpecs(t *testing.T) {
	w := start(t)
	d := create(w, deployments, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"}})
	step := func(want int64, do func(d *appsv1.Deployment), subs ...string) {
		t.Helper()
		next := resource.Clone(d)
		do(next)
		r := w.ask(deployments, "d")
		if len(subs) > 0 {
			r.Sub = subs[0]
		}
		e, _, err := w.Update(t.Context(), r, next)
		if err != nil {
			t.Fatal(err)
		}
		if d = e.Object.(*appsv1.Deployment); d.Generation != want {
			t.Errorf("generation %d, want %d", d.Generation, want)
		}
	}
	step(1, func(d *appsv1.Deployment) { d.Labels = map[string]string{"a": "b"} })
	step(2, func(d *appsv1.Deployment) { d.Spec.Paused = true })
	step(2, func(d *appsv1.Deployment) { d.Generation = 9; d.Status.Replicas = 7 })
	if d.Status.Replicas != 0 {
		t.Error("an update of the object changed its status")
	}
	step(2, func(d *appsv1.Deployment) { d.Status.Replicas = 7; d.Spec.Paused = false }, "status")
	if d.Status.Replicas != 7 || !d.Spec.Paused {
		t.Errorf("status update: %+v", d)
	}
}

func TestEmptyListsCount(t *testing.T) {
	w := start(t)
	for _, c := range []struct {
		name string
		want int64
		do   func(*networkingv1.NetworkPolicySpec)
	}{
		{"as it was", 1, func(*networkingv1.NetworkPolicySpec) {}},
		{"an empty list", 2, func(s *networkingv1.NetworkPolicySpec) { s.Egress = []networkingv1.NetworkPolicyEgressRule{} }},
		{"an empty map", 2, func(s *networkingv1.NetworkPolicySpec) { s.PodSelector.MatchLabels = map[string]string{} }},
		{"an empty list in a list", 2, func(s *networkingv1.NetworkPolicySpec) {
			s.Ingress[0].From = []networkingv1.NetworkPolicyPeer{}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &networkingv1.NetworkPolicy{}
			p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{}}
			p.Name = strings.ReplaceAll(c.name, " ", "-")
			p = create(w, policies, p)
			for again := range int64(2) { // the store forgets that they were empty: it counts every time
				p = resource.Clone(p)
				c.do(&p.Spec)
				if p = update(w, policies, p); p.Generation != 1+(c.want-1)*(again+1) {
					t.Errorf("%s: generation %d", c.name, p.Generation)
				}
			}
		})
	}
}

// A patch says nothing of an empty list that it does not name: the document that it is applied to has none.
func TestEmptyListsDoNotCountInPatches(t *testing.T) {
	w := start(t)
	p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	p.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{}
	create(w, policies, p)
	got, err := w.merge(policies, "p", `{"metadata":{"labels":{"a":"b"}}}`)
	if err != nil || got.GetGeneration() != 1 {
		t.Errorf("generation %d, %v", got.GetGeneration(), err)
	}
}

func TestCreateOnUpdate(t *testing.T) {
	w := start(t)
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "l", ResourceVersion: "5"}}
	e, created, err := w.Update(t.Context(), w.ask(leases, "l"), l)
	if err != nil || !created || e.Object.GetUID() == "" {
		t.Fatalf("%v, %v, %v", e, created, err)
	}
	next := resource.Clone(e.Object.(*coordinationv1.Lease))
	if _, created, err = w.Update(t.Context(), w.ask(leases, "l"), next); err != nil || created {
		t.Errorf("again: %v, %v", created, err)
	}
	next.ResourceVersion = ""
	if _, _, err = w.Update(t.Context(), w.ask(leases, "l"), next); reason(err) != "Invalid FieldValueInvalid metadata.resourceVersion" {
		t.Errorf("without a revision: %v", err)
	}
}

func TestWritersLoseNothing(t *testing.T) {
	w := start(t)
	create(w, configMaps, configMap("a"))
	const writers, rounds = 20, 20
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for n := range rounds {
				patch := fmt.Sprintf(`{"data":{"w%d":"%d"}}`, i, n+1)
				if i%2 == 0 {
					if _, err := w.merge(configMaps, "a", patch); err != nil {
						t.Errorf("patch: %v", err)
					}
					continue
				}
				for {
					c := resource.Clone(w.get(configMaps, "a").(*corev1.ConfigMap))
					if c.Data == nil {
						c.Data = map[string]string{}
					}
					c.Data["w"+strconv.Itoa(i)] = strconv.Itoa(n + 1)
					_, _, err := w.Update(t.Context(), w.ask(configMaps, "a"), c)
					if err == nil {
						break
					}
					if !apierrors.IsConflict(err) {
						t.Errorf("update: %v", err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	data := w.get(configMaps, "a").(*corev1.ConfigMap).Data
	for i := range writers {
		if data["w"+strconv.Itoa(i)] != strconv.Itoa(rounds) {
			t.Errorf("writer %d: %q", i, data["w"+strconv.Itoa(i)])
		}
	}
}

func TestPatches(t *testing.T) {
	w := start(t)
	create(w, configMaps, configMap("a", "k", "1"))
	patch := func(pt types.PatchType, data string, edit ...func(*server.Request)) (*corev1.ConfigMap, error) {
		r := w.ask(configMaps, "a")
		for _, f := range edit {
			f(r)
		}
		e, _, err := w.Patch(t.Context(), r, pt, []byte(data), false)
		if err != nil {
			return nil, err
		}
		return e.Object.(*corev1.ConfigMap), nil
	}
	strict := func(r *server.Request) { r.Strict = server.FieldsStrict }
	yamlTwice := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  l: '1'\n  l: '2'\n  m: '1'\n  m: '2'\n"
	for _, x := range []struct {
		pt   types.PatchType
		data string
		edit func(*server.Request)
		want string // reason, or the value of k
	}{
		{types.MergePatchType, `{"data":{"k":"2"}}`, nil, "2"},
		{types.JSONPatchType, `[{"op":"replace","path":"/data/k","value":"3"}]`, nil, "3"},
		{types.JSONPatchType, `[{"op":"test","path":"/data/k","value":"9"}]`, nil, "Invalid"},
		{types.StrategicMergePatchType, `{"data":{"k":"4"}}`, nil, "4"},
		{types.MergePatchType, `{"metadata":{"resourceVersion":"1"}}`, nil, "Conflict"},
		{types.MergePatchType, `{"metadata":{"name":"b"}}`, nil, "BadRequest"},
		{types.MergePatchType, `{"kind":"Secret"}`, nil, "Invalid FieldValueInvalid patch"},
		{types.JSONPatchType, `[{"op":"replace","path":"/kind","value":"Pod"}]`, nil, "Invalid FieldValueInvalid patch"},
		{types.MergePatchType, `{"apiVersion":"v2"}`, nil, "Invalid FieldValueInvalid patch"},
		{types.MergePatchType, `{"apiVersion":null}`, nil, "BadRequest"},
		{types.MergePatchType, `{"kind":null}`, nil, "4"},
		{types.MergePatchType, `{"apiVersion":"v1beta3"}`, nil, "4"},
		{types.StrategicMergePatchType, `{"kind":"Secret"}`, nil, "4"},
		{types.MergePatchType, `{"data":{"bad":"x"}}`, nil, "Invalid FieldValueInvalid data[bad]"},
		{types.MergePatchType, `{"bogus":1}`, strict, "Invalid FieldValueInvalid patch"},
		{types.MergePatchType, `{"bogus":1,"data":{"k":"5"}}`, nil, "5"},
		{types.MergePatchType, `{"data":7}`, nil, "Invalid FieldValueInvalid patch"},
		{types.JSONPatchType, `[{"op":"replace","path":"/data/x","path":"/data/k","value":"6"}]`, strict, "Invalid FieldValueInvalid patch"},
		{types.JSONPatchType, `[{"op":"replace","path":"/data/x","path":"/data/k","value":"6"}]`, nil, "6"},
		{types.ApplyYAMLPatchType, yamlTwice, func(r *server.Request) { r.Manager, r.Strict = "m", server.FieldsStrict }, "BadRequest"},
		{types.ApplyYAMLPatchType, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"l":"1","l":"2"}}`,
			func(r *server.Request) { r.Manager, r.Strict = "m", server.FieldsStrict }, "BadRequest"},
		{types.ApplyYAMLPatchType, yamlTwice, func(r *server.Request) { r.Manager = "m" }, "6"},
		{types.ApplyYAMLPatchType, "data: {k: x}", nil, "Invalid FieldValueRequired fieldManager"},
	} {
		edit := x.edit
		if edit == nil {
			edit = func(*server.Request) {}
		}
		got, err := patch(x.pt, x.data, edit)
		text := reason(err)
		if err == nil {
			text = got.Data["k"]
		}
		if text != x.want {
			t.Errorf("%s: got %q (%v), want %q", x.data, text, err, x.want)
		}
	}
	want := []string{`unknown field "data"`, `unknown field "metadata"`, `unknown field "bogus"`,
		`json patch duplicate field "[0].path"`, `line 6: key "l" already set in map`,
		`line 8: key "m" already set in map`}
	if !slices.Equal(w.warns, want) {
		t.Errorf("warnings %q, want %q", w.warns, want)
	}
}

func TestApply(t *testing.T) {
	w := start(t)
	apply := func(manager, data string, force bool) (*corev1.ConfigMap, bool, error) {
		r := w.ask(configMaps, "a")
		r.Manager = manager
		e, created, err := w.Patch(t.Context(), r, types.ApplyYAMLPatchType, []byte(data), force)
		if err != nil {
			return nil, false, err
		}
		return e.Object.(*corev1.ConfigMap), created, nil
	}
	const head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	one, created, err := apply("one", head+"data: {k: '1'}", false)
	if err != nil || !created || one.Data["k"] != "1" {
		t.Fatalf("%+v, %v, %v", one, created, err)
	}
	if again, created, err := apply("one", head+"data: {k: '1'}", false); err != nil || created ||
		again.ResourceVersion != one.ResourceVersion {
		t.Errorf("again: %v, %v, %v", again.ResourceVersion, created, err)
	}
	if _, _, err := apply("two", head+"data: {k: '2'}", false); reason(err) != "Conflict FieldManagerConflict .data.k" {
		t.Errorf("conflict: %v", err)
	}
	if got, _, err := apply("two", head+"data: {k: '2'}", true); err != nil || got.Data["k"] != "2" {
		t.Errorf("forced: %v, %v", got, err)
	}
}

// A scale that is for another object is refused before it is looked at; what kinds make of their own names is no matter of scales.
func TestScaleOfAnother(t *testing.T) {
	on, err := features.New(36, nil)
	if err != nil {
		t.Fatal(err)
	}
	lax := &resource.Def[*appsv1.Deployment]{GVK: deployments.GVK, Plural: "deployments", Namespaced: true, Default: deployments.Default,
		Scale: deployments.Scale, Quirks: resource.Quirks{SkipGenerateNameCheck: true}}
	w := start(t, func(config *testcluster.Config) {
		config.Kinds = resource.For(on, nil, lax)
		config.View = view.NewWith(config.Kinds, view.Config{Guard: true})
	})
	create(w, lax, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"}})
	for _, c := range []struct {
		name, want string
		meta       metav1.ObjectMeta
	}{
		{"of another", "Conflict", metav1.ObjectMeta{UID: "x", Labels: map[string]string{"a b": "c"}}},
		{"bad name", "Invalid FieldValueInvalid metadata.generateName", metav1.ObjectMeta{GenerateName: "A_"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sc := &autoscalingv1.Scale{ObjectMeta: c.meta}
			sc.Name, sc.Namespace = "d", "ns"
			if _, _, err := w.Update(t.Context(), sub(w.ask(lax, "d"), "scale"), sc); reason(err) != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// Up to 1.36 the metadata of a scale, which nobody sees again, had to be good.
func TestMetadataOfScale(t *testing.T) {
	for _, c := range []struct {
		name, patch, want string
		minor             int
		typ               types.PatchType
	}{
		{"label", `{"metadata":{"labels":{"a b":"c"}}}`, "", 37, types.MergePatchType},
		{"label in 1.36", `{"metadata":{"labels":{"a b":"c"}}}`, "Invalid FieldValueInvalid metadata.labels", 36, types.MergePatchType},
		{"applied", `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"generation":-1}}`, "", 37, types.ApplyYAMLPatchType},
		{"applied in 1.36", `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"generation":-1}}`,
			"Invalid FieldValueInvalid metadata.generation", 36, types.ApplyYAMLPatchType},
		{"finalizer", `{"metadata":{"finalizers":["x"]}}`, "", 37, types.MergePatchType},
		{"bad before another's", `{"metadata":{"labels":{"a b":"c"},"uid":"x"}}`, "Invalid FieldValueInvalid metadata.labels", 36,
			types.MergePatchType},
		{"another's", `{"metadata":{"uid":"x"}}`, "Conflict", 37, types.MergePatchType},
		{"applied to another's", `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"uid":"x"}}`, "Conflict", 37,
			types.ApplyYAMLPatchType},
		{"name", `{"metadata":{"generateName":"A_"}}`, "", 37, types.MergePatchType},
		{"replicas", `{"spec":{"replicas":-1}}`, "Invalid FieldValueInvalid spec.replicas", 37, types.MergePatchType},
	} {
		t.Run(c.name, func(t *testing.T) {
			on, err := features.New(c.minor, nil)
			if err != nil {
				t.Fatal(err)
			}
			w := start(t, func(config *testcluster.Config) {
				config.Kinds = resource.For(on, nil, deployments)
				config.View = view.NewWith(config.Kinds, view.Config{Guard: true})
			})
			create(w, deployments, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"}})
			ask := sub(w.ask(deployments, "d"), "scale")
			ask.Manager = "m"
			if _, _, err := w.Patch(t.Context(), ask, c.typ, []byte(c.patch), c.typ == types.ApplyYAMLPatchType); reason(err) != c.want {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestScale(t *testing.T) {
	w := start(t)
	create(w, deployments, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"}})
	out, err := w.Call(t.Context(), sub(w.ask(deployments, "d"), "scale"), "get", nil)
	if err != nil {
		t.Fatal(err)
	}
	sc := resource.Clone(out.(*autoscalingv1.Scale))
	if sc.Spec.Replicas != 1 || sc.Status.Selector != "a=b" || sc.ResourceVersion == "" {
		t.Errorf("scale %+v", sc)
	}
	stale := resource.Clone(sc)
	sc.Spec.Replicas = 5
	if out, err = w.Call(t.Context(), sub(w.ask(deployments, "d"), "scale"), "update", sc); err != nil ||
		out.(*autoscalingv1.Scale).Spec.Replicas != 5 {
		t.Fatalf("%v, %v", out, err)
	}
	if _, err := w.Call(t.Context(), sub(w.ask(deployments, "d"), "scale"), "update", stale); reason(err) != "Conflict" {
		t.Errorf("stale: %v", err)
	}
	patch := func(data string) (string, error) {
		e, _, err := w.Patch(t.Context(), sub(w.ask(deployments, "d"), "scale"), types.MergePatchType, []byte(data), false)
		if err != nil {
			return "", err
		}
		js, err := e.JSON(t.Context(), e.Kind.Info().GVK)
		return string(js), err
	}
	if js, err := patch(`{"spec":{"replicas":2}}`); err != nil || !strings.Contains(js, `"kind":"Scale"`) ||
		!strings.Contains(js, `"replicas":2`) {
		t.Errorf("%s, %v", js, err)
	}
	if _, err := patch(`{"spec":{"replicas":-1}}`); reason(err) != "Invalid FieldValueInvalid spec.replicas" {
		t.Errorf("negative: %v", err)
	}
	if _, err := patch(`{"kind":"Deployment"}`); reason(err) != "Invalid FieldValueInvalid patch" {
		t.Errorf("another kind: %v", err)
	}
	if _, err := patch(`{"metadata":{"uid":"x"}}`); reason(err) != "Conflict" || !strings.Contains(err.Error(), `deployments/scale.apps "d"`) {
		t.Errorf("another uid: %v", err)
	}
	if _, _, err := w.Patch(t.Context(), sub(w.ask(deployments, "none"), "scale"), types.MergePatchType,
		[]byte(`{"spec":{"replicas":2}}`), false); reason(err) != "NotFound" || strings.Contains(err.Error(), "/scale") {
		t.Errorf("nothing to scale: %v", err)
	}
	if _, err := w.Call(t.Context(), sub(w.ask(deployments, "none"), "scale"), "get", nil); reason(err) != "NotFound" ||
		!strings.Contains(err.Error(), `deployments.apps "none"`) {
		t.Errorf("no scale to read: %v", err)
	}
	if d := w.get(deployments, "d").(*appsv1.Deployment); *d.Spec.Replicas != 2 || d.Generation != 3 {
		t.Errorf("deployment %d, generation %d", *d.Spec.Replicas, d.Generation)
	}
	if _, err := w.Call(t.Context(), sub(w.ask(configMaps, "a"), "scale"), "get", nil); reason(err) != "NotFound" {
		t.Errorf("no scale: %v", err)
	}
}

func TestBind(t *testing.T) {
	w := start(t)
	create(w, pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}})
	bind := func(node string) error {
		_, err := w.Call(t.Context(), sub(w.ask(pods, "p"), "binding"), "create", &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{"a": "b"}}, Target: corev1.ObjectReference{Kind: "Node",
				Name: node}})
		return err
	}
	for _, node := range []string{"", "No_node"} {
		if err := bind(node); reason(err) != "500" {
			t.Errorf("no node %q: %v", node, err)
		}
	}
	if err := bind("n1"); err != nil {
		t.Fatal(err)
	}
	if err := bind("n2"); reason(err) != "Conflict" {
		t.Errorf("again: %v", err)
	}
	p := w.get(pods, "p").(*corev1.Pod)
	if p.Spec.NodeName != "n1" || p.Generation != 1 || p.Annotations["a"] != "b" || len(p.Status.Conditions) != 1 ||
		p.Status.Conditions[0].Type != corev1.PodScheduled {
		t.Errorf("pod %+v", p)
	}
}
