package openapi

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
)

// TestOracle compares the documents with recordings of upstream's. KLOOP_ORACLE names their folder, KLOOP_SURFACE
// the table of kinds; without it the test is skipped. Recordings are of 1.36: later fields are not missed there.
func TestOracle(t *testing.T) {
	dir := os.Getenv("KLOOP_ORACLE")
	if dir == "" {
		t.Skip("KLOOP_ORACLE is not set")
	}
	docs := New(upstreamSet(t, os.Getenv("KLOOP_SURFACE")))
	for _, what := range []string{"openapi-schemas", "openapi-kind", "openapi-paths"} {
		files, _ := filepath.Glob(filepath.Join(dir, "discovery", what, "*.json"))
		if len(files) == 0 {
			t.Errorf("no recordings of %s", what)
		}
		for _, f := range files {
			t.Run(what+"/"+filepath.Base(f), func(t *testing.T) { compare(t, docs, what, f) })
		}
	}
}

// changed since the recordings were made, or masked in them.
var changed = []string{"storageVersionHash", "|required: ", "StatefulSetUpdateStrategy|properties|type|enum",
	"IngressRule|properties|http|", "/csinodes/{name}/status"}

type step struct {
	Step string `json:"step"`
	Body any    `json:"body"`
}

func recording(t *testing.T, file string) (steps []step) {
	t.Helper()
	b, err := os.ReadFile(file)
	var r struct{ Steps []step }
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r.Steps
}

func compare(t *testing.T, docs *Docs, what, file string) {
	s := recording(t, file)[0]
	_, path, _ := strings.Cut(s.Step, "/openapi/v3/")
	parts := strings.Split(path, "/")
	gv := schema.GroupVersion{Version: parts[len(parts)-1]}
	if len(parts) == 3 {
		gv.Group = parts[1]
	}
	raw, _, err := docs.V3(path)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	got := plain(doc["components"].(object)["schemas"])
	switch what {
	case "openapi-kind":
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		kind := name[strings.LastIndex(name, "-")+1:]
		for n, s := range got.(object) {
			if strings.HasSuffix(n, "."+gv.Version+"."+kind) {
				got = s
			}
		}
	case "openapi-paths":
		got = pathFacts(doc)
	}
	diff := differ("", got, s.Body)
	diff = slices.DeleteFunc(diff, func(d string) bool {
		later := slices.ContainsFunc(changed, func(c string) bool { return strings.Contains(d, c) })
		return later || what != "openapi-paths" && strings.HasSuffix(d, ": unwanted")
	})
	if len(diff) > 0 {
		t.Errorf("%d differences:\n%s", len(diff), strings.Join(diff[:min(len(diff), 12)], "\n"))
	}
}

// plain drops descriptions.
func plain(v any) any {
	switch v := v.(type) {
	case object:
		out := object{}
		for k, e := range v {
			if _, isText := e.(string); !isText || k != "description" {
				out[k] = plain(e)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plain(v[i])
		}
		return out
	}
	return v
}

func pathFacts(doc object) object {
	out := object{}
	for p, item := range doc["paths"].(object) {
		ops, shared := object{}, names(item.(object)["parameters"])
		for method, op := range item.(object) {
			if method == "parameters" {
				continue
			}
			o, f := op.(object), object{}
			for _, k := range []string{"x-kubernetes-action", gvkExtension} {
				if o[k] != nil {
					f[k] = o[k]
				}
			}
			all := append(names(o["parameters"]), shared...)
			slices.Sort(all)
			f["parameters"] = anyList(slices.Compact(all))
			if b, ok := o["requestBody"].(object); ok {
				f["consumes"] = keys(b["content"])
			}
			f["responses"] = keys(o["responses"])
			if r, ok := o["responses"].(object)["200"].(object); ok {
				f["produces"] = keys(r["content"])
			}
			ops[method] = f
		}
		out[p] = ops
	}
	return out
}

func names(v any) (list []string) {
	l, _ := v.([]any)
	for _, p := range l {
		list = append(list, p.(object)["name"].(string))
	}
	return list
}

func keys(v any) []any {
	var list []string
	for k := range v.(object) {
		list = append(list, k)
	}
	slices.Sort(list)
	return anyList(list)
}

func anyList(l []string) []any {
	out := []any{}
	for _, s := range l {
		out = append(out, s)
	}
	return out
}

func differ(path string, got, want any) (diff []string) {
	g, ok1 := got.(object)
	w, ok2 := want.(object)
	if !ok1 || !ok2 {
		if !reflect.DeepEqual(got, want) {
			a, _ := json.Marshal(got)
			b, _ := json.Marshal(want)
			return []string{path + ": got " + string(a) + ", want " + string(b)}
		}
		return nil
	}
	for k := range g {
		if _, ok := w[k]; !ok {
			diff = append(diff, path+"|"+k+": unwanted")
		}
	}
	for k, v := range w {
		if _, ok := g[k]; !ok {
			diff = append(diff, path+"|"+k+": missing")
		} else {
			diff = append(diff, differ(path+"|"+k, g[k], v)...)
		}
	}
	return diff
}

// upstreamSet makes a set of a table of upstream's kinds: group, version, kind, plural, singular, namespaced, short
// names, categories, subresources, verbs, enabled.
func upstreamSet(t *testing.T, file string) *resource.Set {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	byGR := map[schema.GroupResource]*stub{}
	set := &resource.Set{}
	for _, line := range strings.Split(string(b), "\n")[1:] {
		f := strings.Split(line, "\t")
		if len(f) < 11 || !strings.HasPrefix(f[10], "yes") {
			continue
		}
		gvk := schema.GroupVersionKind{Group: strings.TrimPrefix(f[0], "-"), Version: f[1], Kind: f[2]}
		if s := byGR[schema.GroupResource{Group: gvk.Group, Resource: f[3]}]; s != nil {
			s.info.Also = append(s.info.Also, gvk)
			continue
		}
		s := &stub{info: resource.Info{GVK: gvk, Plural: f[3], ListKind: f[2] + "List", Namespaced: f[5] == "true",
			Verbs: strings.Split(f[9], ","), Subs: subsOf(f[8])}}
		byGR[s.info.GR()] = s
	}
	for _, s := range byGR {
		if err := set.Put(s); err != nil {
			t.Fatal(err)
		}
	}
	return set
}

// subsOf reads "scale(autoscaling/v1 Scale)[get,patch] status[get]".
func subsOf(text string) (subs []resource.SubInfo) {
	for _, m := range regexp.MustCompile(`(\w+)(?:\((?:([^ )]+)/(\w+) )?(\w+)\))?\[([^\]]*)\]`).FindAllStringSubmatch(text, -1) {
		s := resource.SubInfo{Name: m[1], Verbs: strings.Split(m[5], ",")}
		if m[4] != "" {
			s.GVK = schema.GroupVersionKind{Group: m[2], Version: orV1(m[3]), Kind: m[4]}
		}
		subs = append(subs, s)
	}
	return subs
}

func orV1(v string) string {
	if v == "" {
		return "v1"
	}
	return v
}

type stub struct {
	resource.Kind
	info resource.Info
}

func (s *stub) Info() *resource.Info { return &s.info }
