package applyset

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const mine = "applyset-mine-v1"

func idOf(name string) ID {
	kind, name, _ := strings.Cut(name, "/")
	return ID{schema.GroupKind{Kind: kind}, "n", name}
}

func wish(name, origin, hash string) named {
	return named{Wish{Origin: origin, Hash: hash}, idOf(name)}
}

// text shows a plan in words.
func text(want []named, d todo, stopped int) string {
	var b strings.Builder
	for _, a := range d.apply {
		for _, w := range want {
			if w.Origin == a.Origin && w.Hash == a.Hash {
				fmt.Fprintf(&b, "apply %s/%s; ", w.id.Kind, w.id.Name)
			}
		}
	}
	for _, m := range d.prune {
		fmt.Fprintf(&b, "prune %s/%s; ", m.id.Kind, m.id.Name)
	}
	for _, id := range d.kept {
		fmt.Fprintf(&b, "keep %s/%s; ", id.Kind, id.Name)
	}
	for _, c := range d.taken {
		fmt.Fprintf(&b, "%s/%s is of %s; ", c.id.Kind, c.id.Name, c.by)
	}
	for _, c := range d.doubles {
		fmt.Fprintf(&b, "%s/%s in %s and %s; ", c.id.Kind, c.id.Name, c.by, c.origin)
	}
	if stopped > 0 {
		fmt.Fprintf(&b, "stopped at %d", stopped)
	}
	return strings.TrimSuffix(strings.TrimSpace(b.String()), ";")
}

func TestPlan(t *testing.T) {
	many := func(n int) (list []member) {
		for i := range n {
			list = append(list, member{id: idOf(fmt.Sprintf("ConfigMap/%02d", i)), origin: "gone", set: mine})
		}
		return list
	}
	for _, tt := range []struct {
		name   string
		want   []named
		have   []member
		seen   map[ID]settled
		surely bool
		plan   string
	}{
		{name: "what others need comes first", want: []named{wish("Deployment/web", "f", "1"), wish("ValidatingWebhookConfiguration/v", "f", "2"),
			wish("ConfigMap/c", "f", "3"), wish("CustomResourceDefinition/d", "f", "4"), wish("Namespace/x", "f", "5")},
			plan: "apply Namespace/x; apply CustomResourceDefinition/d; apply ConfigMap/c; " +
				"apply Deployment/web; apply ValidatingWebhookConfiguration/v"},
		{name: "what is as it was rests", want: []named{wish("ConfigMap/c", "f", "1")},
			have: []member{{id: idOf("ConfigMap/c"), origin: "f", mark: "7", set: mine}},
			seen: map[ID]settled{idOf("ConfigMap/c"): {"1", "7"}}},
		{name: "changed in the cluster", want: []named{wish("ConfigMap/c", "f", "1")},
			have: []member{{id: idOf("ConfigMap/c"), origin: "f", mark: "8", set: mine}},
			seen: map[ID]settled{idOf("ConfigMap/c"): {"1", "7"}}, plan: "apply ConfigMap/c"},
		{name: "changed in the source", want: []named{wish("ConfigMap/c", "f", "2")},
			have: []member{{id: idOf("ConfigMap/c"), origin: "f", mark: "7", set: mine}},
			seen: map[ID]settled{idOf("ConfigMap/c"): {"1", "7"}}, plan: "apply ConfigMap/c"},
		{name: "moved to another file", want: []named{wish("ConfigMap/c", "g", "1")},
			have: []member{{id: idOf("ConfigMap/c"), origin: "gone", mark: "7", set: mine}},
			seen: map[ID]settled{idOf("ConfigMap/c"): {"1", "7"}}, plan: "apply ConfigMap/c"},
		{name: "lost, the last made goes first",
			have: []member{{id: idOf("ConfigMap/c"), origin: "gone", set: mine}, {id: idOf("Deployment/d"), origin: "gone", set: mine}},
			plan: "prune Deployment/d; prune ConfigMap/c"},
		{name: "an origin that can't be judged loses nothing",
			have: []member{{id: idOf("ConfigMap/c"), origin: "broken", set: mine}}},
		{name: "what goes already",
			have: []member{{id: idOf("ConfigMap/c"), origin: "gone", set: mine, going: true}}},
		{name: "kept",
			have: []member{{id: idOf("Namespace/c"), origin: "gone", set: mine, keep: true}}, plan: "keep Namespace/c"},
		{name: "nobody's object is adopted", want: []named{wish("ConfigMap/c", "f", "1")},
			have: []member{{id: idOf("ConfigMap/c")}}, plan: "apply ConfigMap/c"},
		{name: "another set's is not", want: []named{wish("ConfigMap/c", "f", "1")},
			have: []member{{id: idOf("ConfigMap/c"), set: "other", origin: "gone"}},
			plan: "ConfigMap/c is of other"},
		{name: "described twice", want: []named{wish("ConfigMap/c", "f", "1"), wish("ConfigMap/c", "g", "2")},
			plan: "apply ConfigMap/c; ConfigMap/c in f and g"},
		{name: "more than half of many", have: many(10), plan: "stopped at 10"},
		{name: "confirmed", have: many(10)[:1], surely: true, plan: "prune ConfigMap/00"},
		{name: "all of few", have: many(9)[8:], plan: "prune ConfigMap/08"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			have := map[ID]member{}
			for _, m := range tt.have {
				have[m.id] = m
			}
			d, stopped := plan(mine, tt.want, have, func(origin string) bool { return origin == "gone" }, tt.seen, tt.surely)
			if got := text(tt.want, d, stopped); got != tt.plan {
				t.Errorf("got  %s\nwant %s", got, tt.plan)
			}
		})
	}
}

// TestID sees the form that KEP-3659 gives an id: 43 characters of a hash between two words.
func TestID(t *testing.T) {
	got := (Set{Namespace: "kube-system", Name: "manifests"}).ID()
	if !strings.HasPrefix(got, "applyset-") || !strings.HasSuffix(got, "-v1") || len(got) != 55 {
		t.Error(got)
	}
}
