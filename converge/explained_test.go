package converge

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/view"
)

// A told row is a state as a cluster has it, and what must be said of one object of it. What the loops make of such objects
// is tried by test/why; here are the states that take long to come about, or that other clusters have.
type toldRow struct {
	Name   string   `json:"name"`
	Given  string   `json:"given"` // objects, in YAML; those of namespaced kinds without a namespace get "a"
	Ask    string   `json:"ask"`   // RESOURCE[.GROUP]:NAME
	Cause  string   `json:"cause"` // "": the object is what it should be
	Owner  string   `json:"owner"`
	State  string   `json:"state"`
	Says   string   `json:"says"`   // part of the verdict
	Silent string   `json:"silent"` // no part of the verdict, nor of what comes next
	Next   string   `json:"next"`   // part of what comes next
	Advice []string `json:"advice"` // each a part of one piece of advice
	Rests  string   `json:"rests"`  // part of what is said of one that rests on purpose
}

// TestTold holds what is said of the states of testdata/told.yaml and asked.yaml to what is expected.
func TestTold(t *testing.T) {
	var rows []toldRow
	for _, file := range []string{"testdata/told.yaml", "testdata/asked.yaml"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var more []toldRow
		if err := yaml.UnmarshalStrict(data, &more); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, more...)
	}
	seen := map[string]bool{}
	for _, r := range rows {
		if seen[r.Name] {
			t.Errorf("two rows are named %s", r.Name)
		}
		seen[r.Name] = true
		t.Run(r.Name, func(t *testing.T) { r.check(t) })
	}
}

func (r *toldRow) check(t *testing.T) {
	w := worldOf(t, r.Given)
	gr, name, err := convergence.ParseName(r.Ask)
	if err != nil {
		t.Fatal(err)
	}
	k, ok := w.Kinds.GR(gr)
	if !ok {
		t.Fatalf("no kind %s", gr)
	}
	ns := ""
	if k.Info().Namespaced {
		ns = "a"
	}
	obj := w.Read.Lookup(k, ns, name)
	if obj == nil {
		t.Fatalf("no %s", r.Ask)
	}
	if got := w.Rests(k, obj); r.Rests == "" && r.Cause == "" && got != "" || !strings.Contains(got, r.Rests) {
		t.Errorf("it rests: %q, want %q", got, r.Rests)
	}
	s := w.Explain(k, obj)
	if s == nil || r.Cause == "" {
		if s != nil || r.Cause != "" {
			t.Fatalf("told %+v, want cause %q", s, r.Cause)
		}
		return
	}
	g := s.Gap()
	for _, p := range [][3]string{{"cause", g.Cause, r.Cause}, {"owner", g.Owner, r.Owner}, {"state", g.State, r.State}} {
		if p[2] != "" && p[1] != p[2] {
			t.Errorf("%s is %q, want %q", p[0], p[1], p[2])
		}
	}
	if next := g.Next.Who + " " + g.Next.What; !strings.Contains(g.Verdict, r.Says) || !strings.Contains(next,
		r.Next) || r.Silent != "" && strings.Contains(g.Verdict+next, r.Silent) {
		t.Errorf("says %q, next %q", g.Verdict, next)
	}
	for _, a := range r.Advice {
		if !strings.Contains(strings.Join(g.Advice, "\n"), a) {
			t.Errorf("the advice %q lacks %q", g.Advice, a)
		}
	}
	if t.Failed() {
		text, _ := json.Marshal(g)
		t.Logf("%s", text)
	}
}

// healthyNode is there where the text has no node.
const healthyNode = "apiVersion: v1\nkind: Node\nmetadata: {name: node-1}\nstatus: {conditions: [{type: Ready, status: \"True\"}]}\n"

// worldOf is a world of the objects of a text, at noon. A kind that nobody knows is one that users defined.
func worldOf(t *testing.T, text string) *World {
	t.Helper()
	set := kinds.NewSet()
	v := view.New(set)
	all := map[resource.Kind][]resource.Object{}
	if !strings.Contains(text, "kind: Node\n") {
		text += "---\n" + healthyNode
	}
	for i, doc := range strings.Split(text, "---\n") {
		var u unstructured.Unstructured
		data, err := yaml.YAMLToJSON([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		if err := u.UnmarshalJSON(data); err != nil {
			t.Fatalf("%v: %s", err, doc)
		}
		k, ok := set.Kind(u.GroupVersionKind())
		if !ok {
			k = defined(t, set, u.GroupVersionKind())
		}
		if k.Info().Namespaced && u.GetNamespace() == "" {
			u.SetNamespace("a")
		}
		if u.GetUID() == "" {
			u.SetUID(types.UID(u.GetKind() + "/" + u.GetName()))
		}
		if at := u.GetCreationTimestamp(); at.IsZero() {
			at.Time = noon.Add(-time.Hour)
			u.SetCreationTimestamp(at)
		}
		u.SetResourceVersion("1")
		all[k] = append(all[k], asObject(t, k, &u, i))
	}
	for k, list := range all {
		v.Replace(k, 1, list)
	}
	return &World{Read: v.Snapshot(), Kinds: set, Now: noon}
}

func asObject(t *testing.T, k resource.Kind, u *unstructured.Unstructured, i int) resource.Object {
	t.Helper()
	if k.Info().Custom {
		return u
	}
	data, err := u.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	obj := k.New(k.Info().GVK)
	if _, err := codec.UnmarshalJSON(data, obj); err != nil {
		t.Fatalf("object %d: %v", i, err)
	}
	k.SetDefaults(obj)
	return obj
}

// defined is a kind that users defined.
func defined(t *testing.T, set *resource.Set, gvk schema.GroupVersionKind) resource.Kind {
	t.Helper()
	k := &resource.Def[*unstructured.Unstructured]{GVK: gvk, Plural: strings.ToLower(gvk.Kind) + "s", Namespaced: true, JSON: true}
	if err := set.Put(k); err != nil {
		t.Fatal(err)
	}
	return k
}
