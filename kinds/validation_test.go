package kinds_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

//go:embed testdata/validation.yaml
var recorded []byte

//go:embed testdata/rules.yaml
var rules []byte

//go:embed testdata/groups.yaml
var groups []byte

//go:embed testdata/rules_core.yaml
var rulesCore []byte

//go:embed testdata/rules_rest.yaml
var rulesRest []byte

// A suite is a base object of a kind and what is said of changed copies of it.
type suite struct {
	Plural string         `json:"plural"`
	Base   map[string]any `json:"base"`
	Cases  []struct {
		Name   string         `json:"name"`
		In     int            `json:"in"`     // the minor version of the cluster; 0: the newest
		Update bool           `json:"update"` // the base is stored
		Sub    string         `json:"sub"`    // through this subresource; implies update
		Set    map[string]any `json:"set"`
		Unset  []string       `json:"unset"`
		Want   []string       `json:"want"`
	} `json:"cases"`
}

func TestValidation(t *testing.T) {
	set := kinds.NewSet()
	for _, file := range [][]byte{recorded, rules, groups, rulesCore, rulesRest} {
		var suites []suite
		if err := yaml.UnmarshalStrict(file, &suites); err != nil {
			t.Fatal(err)
		}
		for _, s := range suites {
			for _, c := range s.Cases {
				t.Run(s.Plural+"/"+c.Name, func(t *testing.T) {
					base, old, on := s.Base, resource.Object(nil), version(t, c.In)
					if c.Update || c.Sub != "" {
						old, _ = write(on, decode(t, set, s.Base), nil, "")
						sent, err := mustKind(set, s.Base).ConvertTo(t.Context(), old, gvkOf(s.Base))
						if err != nil {
							t.Fatal(err)
						}
						base = tree(t, sent)
					}
					obj := decode(t, set, change(t, base, c.Set, c.Unset))
					_, errs := write(on, obj, old, c.Sub, gvkOf(s.Base))
					got := said(errs)
					slices.Sort(c.Want)
					if !slices.Equal(got, c.Want) {
						t.Errorf("\n got %s\nwant %s\n%v", got, c.Want, errs)
					}
				})
			}
		}
	}
}

// version is what is on in a cluster of a version; 0 is the newest.
func version(t *testing.T, minor int) *features.Set {
	t.Helper()
	if minor == 0 {
		return nil
	}
	on, err := features.New(minor, nil)
	if err != nil {
		t.Fatal(err)
	}
	return on
}

// write does what the front door does with an object, as far as its kind is concerned.
func write(on *features.Set, obj, old resource.Object, sub string, as ...schema.GroupVersionKind) (resource.Object, field.ErrorList) {
	k, _ := kinds.NewSet().Kind(obj.GetObjectKind().GroupVersionKind())
	k.SetDefaults(on, obj)
	if !k.Info().Virtual {
		obj.SetUID("u-1")
		k.PrepareForWrite(on, sub, obj, old)
	}
	gvk := k.Info().GVK
	if len(as) > 0 {
		gvk = as[0]
	}
	errs := k.Check(on, &gvk, sub, obj, old)
	if says := resource.CheckName(k, obj.GetName(), false); len(says) > 0 && obj.GetName() != "" {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), obj.GetName(), says[0]))
	}
	return obj, errs
}

func tree(t *testing.T, obj any) (out map[string]any) {
	t.Helper()
	b, err := json.Marshal(obj)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func said(errs field.ErrorList) (out []string) {
	for _, e := range errs {
		out = append(out, strings.TrimPrefix(string(e.Type), "FieldValue")+" "+e.Field)
	}
	slices.Sort(out)
	return out
}

// decode reads an object in whatever version it is and returns the hub's.
func decode(t *testing.T, set *resource.Set, tree map[string]any) resource.Object {
	t.Helper()
	gvk := gvkOf(tree)
	k, ok := set.Kind(gvk)
	if !ok {
		t.Fatalf("no kind %s", gvk)
	}
	b, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	obj := k.New(gvk)
	if err := yaml.UnmarshalStrict(b, obj); err != nil {
		t.Fatal(err)
	}
	hub, err := k.ConvertTo(t.Context(), obj, k.Info().GVK)
	if err != nil {
		t.Fatal(err)
	}
	return hub
}

func mustKind(set *resource.Set, tree map[string]any) resource.Kind {
	k, _ := set.Kind(gvkOf(tree))
	return k
}

func gvkOf(tree map[string]any) schema.GroupVersionKind {
	apiVersion, _ := tree["apiVersion"].(string)
	kind, _ := tree["kind"].(string)
	return schema.FromAPIVersionAndKind(apiVersion, kind)
}

func change(t *testing.T, base, set map[string]any, unset []string) map[string]any {
	t.Helper()
	out := tree(t, base)
	paths := make([]string, 0, len(set))
	for p := range set {
		paths = append(paths, p)
	}
	slices.Sort(paths) // parents before children
	for _, p := range paths {
		put(out, steps(p), set[p])
	}
	for _, p := range unset {
		put(out, steps(p), nil)
	}
	return out
}

// steps takes a path like spec.rules[0].host apart.
func steps(path string) (out []any) {
	for _, part := range strings.Split(path, ".") {
		name, rest, _ := strings.Cut(part, "[")
		out = append(out, name)
		for _, index := range strings.FieldsFunc(rest, func(r rune) bool { return r == '[' || r == ']' }) {
			n, err := strconv.Atoi(index)
			if err != nil {
				panic(fmt.Sprintf("path %s: %v", path, err))
			}
			out = append(out, n)
		}
	}
	return out
}

// put sets the value at a path and returns the changed node; nil removes it.
func put(node any, path []any, v any) any {
	if len(path) == 0 {
		return v
	}
	switch step := path[0].(type) {
	case string:
		m, ok := node.(map[string]any)
		if !ok {
			m = map[string]any{}
		}
		if m[step] = put(m[step], path[1:], v); m[step] == nil {
			delete(m, step)
		}
		return m
	case int:
		list, _ := node.([]any)
		for len(list) <= step {
			list = append(list, nil)
		}
		list[step] = put(list[step], path[1:], v)
		return list
	}
	return node
}
