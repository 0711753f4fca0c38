package kinds_test

import (
	_ "embed"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// surface is what the API server of Kubernetes 1.37 serves by default: one line for each version of a kind.
//
//go:embed testdata/surface.tsv
var surface string

type row struct {
	gvk                                               schema.GroupVersionKind
	plural, singular, scope, short, cats, subs, verbs string
}

func rows() (list []row) {
	for _, line := range strings.Split(strings.TrimSpace(surface), "\n")[1:] {
		f := strings.Split(line, "\t")
		for i := range f {
			if f[i] == "-" {
				f[i] = ""
			}
		}
		list = append(list, row{schema.GroupVersionKind{Group: f[0], Version: f[1], Kind: f[2]}, f[3], f[4], f[5], f[6], f[7], f[8], f[9]})
	}
	return list
}

func TestSurface(t *testing.T) {
	set, served := kinds.NewSet(), 0
	for _, k := range set.All() {
		served += len(k.Info().Served())
	}
	list := rows()
	if served != len(list) || served == 0 {
		t.Errorf("%d versions of kinds are declared, the surface has %d", served, len(list))
	}
	for _, r := range list {
		k, gvk, ok := set.Resource(r.gvk.GroupVersion().WithResource(r.plural))
		if !ok {
			t.Errorf("%s %s is not declared", r.gvk.GroupVersion(), r.plural)
			continue
		}
		i := k.Info()
		scope, verbs := "", strings.Join(i.Verbs, ",")
		if i.Namespaced {
			scope = "ns"
		}
		if len(i.Verbs) == 8 {
			verbs = "all"
		}
		got := row{gvk, i.Plural, i.Singular, scope, strings.Join(i.Short, ","), strings.Join(i.Categories, ","), subs(i), verbs}
		if got != r {
			t.Errorf("%s:\n got %+v\nwant %+v", r.plural, got, r)
		}
	}
}

func subs(i *resource.Info) string {
	var out []string
	for _, s := range i.Subs {
		out = append(out, s.Name+":"+strings.Join(s.Verbs, ","))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// The keys under which upstream keeps kinds where the plural is not the key.
func TestStorageKeys(t *testing.T) {
	want := map[string]string{
		"services": "/registry/services/specs/", "endpoints": "/registry/services/endpoints/", "nodes": "/registry/minions/",
		"replicationcontrollers": "/registry/controllers/", "ingresses": "/registry/ingress/", "events": "/registry/events/",
		"customresourcedefinitions": "/registry/apiextensions.k8s.io/customresourcedefinitions/",
		"apiservices":               "/registry/apiregistration.k8s.io/apiservices/",
	}
	for _, k := range kinds.All() {
		i := k.Info()
		prefix, odd := want[i.Plural]
		if !odd {
			prefix = "/registry/" + i.Plural + "/"
		}
		if i.Virtual {
			prefix = ""
		}
		if i.Prefix != prefix {
			t.Errorf("%s is kept at %s, want %s", i.Plural, i.Prefix, prefix)
		}
	}
}

func TestCreateOnUpdate(t *testing.T) {
	want := []string{"clusterrolebindings", "clusterroles", "endpoints", "events", "leases", "limitranges",
		"rolebindings", "roles", "runtimeclasses", "services"}
	var got []string
	for _, k := range kinds.All() {
		if k.Info().CreateOnUpdate {
			got = append(got, k.Info().Plural)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("PUT creates %v, want %v", got, want)
	}
}

// Every table has one column called Name, a cell for each column, and does not panic on an empty object.
func TestTables(t *testing.T) {
	for _, k := range kinds.All() {
		i := k.Info()
		header, names := k.Header(nil), 0
		for _, c := range header {
			if c.Name == "Name" {
				names++
			}
		}
		if names != 1 {
			t.Errorf("%s: %d columns are called Name", i.Plural, names)
		}
		cells := len(header)
		if i.Plural == "ipaddresses" {
			cells++ // the age, which no column announces
		}
		if row := k.Rows(nil, nil)(k.New(i.GVK)); len(row) != cells {
			t.Errorf("%s: %d cells for %d columns", i.Plural, len(row), len(header))
		}
	}
}

// Bad input is judged, never a reason to panic.
func TestEmptyObjects(t *testing.T) {
	for _, k := range kinds.All() {
		i := k.Info()
		obj := k.New(i.GVK)
		k.SetDefaults(nil, obj)
		if i.Virtual {
			k.Check(nil, nil, "", obj, nil)
			continue
		}
		old := resource.Clone(obj)
		k.PrepareForWrite(nil, "", obj, nil)
		k.Check(nil, nil, "", obj, nil)
		k.PrepareForWrite(nil, "", obj, old)
		k.Check(nil, nil, "", obj, old)
		k.Warnings(nil, obj, nil)
		for _, label := range k.Info().Selectable {
			k.Field(obj, label)
		}
		for _, s := range i.Subs {
			if s.Name == "status" || s.Name == "approval" {
				k.PrepareForWrite(nil, s.Name, obj, old)
				k.Check(nil, nil, s.Name, obj, old)
			}
		}
	}
}
