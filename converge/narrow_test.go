package converge_test

import (
	"iter"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/internal/states"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
)

// narrow is a state of which one namespace alone can be read.
type narrow struct{ resource.Reader }

func (n narrow) shows(k resource.Kind, ns string) bool {
	return k.Info().Namespaced && (ns == "" || ns == states.Namespace)
}

func (n narrow) Lookup(k resource.Kind, ns, name string) resource.Object {
	if !n.shows(k, ns) {
		return nil
	}
	return n.Reader.Lookup(k, ns, name)
}

func (n narrow) only(k resource.Kind, all iter.Seq[resource.Object]) iter.Seq[resource.Object] {
	return func(yield func(resource.Object) bool) {
		for obj := range all {
			if n.shows(k, obj.GetNamespace()) && !yield(obj) {
				return
			}
		}
	}
}

func (n narrow) Each(k resource.Kind, ns string) iter.Seq[resource.Object] {
	return n.only(k, n.Reader.Each(k, ns))
}

func (n narrow) ByOwner(k resource.Kind, uid string) iter.Seq[resource.Object] {
	return n.only(k, n.Reader.ByOwner(k, uid))
}

func (n narrow) ByField(k resource.Kind, label, value string) iter.Seq[resource.Object] {
	return n.only(k, n.Reader.ByField(k, label, value))
}

func (n narrow) ByLabel(k resource.Kind, ns, label, value string) iter.Seq[resource.Object] {
	return n.only(k, n.Reader.ByLabel(k, ns, label, value))
}

// denies finds words by which something is said not to be there.
var denies = regexp.MustCompile(`does not exist|no node has|is not installed|makes none|finds no\b|there is no\b|\binstall\b|` +
	`not connected|can't grow: make`)

// TestOfOneNamespace explains all states to who may read one namespace alone: of nothing is it said that it is not there because it could
// not be seen.
func TestOfOneNamespace(t *testing.T) {
	rows, err := states.Rows("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		gr, name, _ := convergence.ParseName(r.Ask)
		all := worldOf(t, r.Given)
		k, _ := all.Kinds.GR(gr)
		if !k.Info().Namespaced || r.Server != nil {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			full := told(all, k, name)
			few := worldOf(t, r.Given)
			few.Read, few.Unseen = narrow{few.Read}, map[schema.GroupResource]string{}
			for _, k := range few.Kinds.All() {
				few.Unseen[k.Info().GR()] = ""
				if k.Info().Namespaced {
					few.Unseen[k.Info().GR()] = states.Namespace
				}
			}
			text := told(few, k, name)
			for _, word := range denies.FindAllString(text, -1) {
				if !strings.Contains(full, word) {
					t.Errorf("says %q\nand to who sees all %q", text, full)
				}
			}
		})
	}
}

// told is all that is said of an object.
func told(w *converge.World, k resource.Kind, name string) string {
	obj := w.Read.Lookup(k, states.Namespace, name)
	g := w.Rest(k, obj)
	if s := w.Explain(k, obj); s != nil {
		g = s.Gap()
	}
	if g == nil {
		return ""
	}
	return strings.Join(append([]string{g.Verdict, g.Because, g.Detail, g.Next.What}, g.Advice...), "\n")
}

const missing = `
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {nodeName: node-1, containers: [{name: app, image: x, envFrom: [{secretRef: {name: db}}]}]}
status:
  phase: Pending
  containerStatuses: [{name: app, state: {waiting: {reason: CreateContainerConfigError, message: 'secret "db" not found'}}}]
---
apiVersion: example.com/v1
kind: Login
metadata: {name: one, namespace: b}
spec: {output: {name: db}}
---
apiVersion: example.com/v1
kind: Login
metadata: {name: two}
spec: {output: {name: db}}
status: {phase: Failed, message: the vault is sealed}
`

// counting counts the objects of other namespaces that are looked at.
type counting struct {
	resource.Reader
	elsewhere int
}

func (c *counting) Each(k resource.Kind, ns string) iter.Seq[resource.Object] {
	return func(yield func(resource.Object) bool) {
		for obj := range c.Reader.Each(k, ns) {
			if k.Info().Custom && obj.GetNamespace() != states.Namespace {
				c.elsewhere++
			}
			if !yield(obj) {
				return
			}
		}
	}
}

// TestMakersOfOneNamespace looks for who is to make a Secret in its namespace alone: there may be many objects in others.
func TestMakersOfOneNamespace(t *testing.T) {
	w := worldOf(t, missing)
	c := &counting{Reader: w.Read}
	w.Read = c
	pod, _ := w.Kinds.GR(schema.GroupResource{Resource: "pods"})
	if text := told(w, pod, "p"); !strings.Contains(text, "login/two failed: the vault is sealed") {
		t.Error(text)
	}
	if c.elsewhere > 0 {
		t.Errorf("%d objects of other namespaces were looked at", c.elsewhere)
	}
}
