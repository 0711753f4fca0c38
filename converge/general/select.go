package general

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/resource"
)

// selectors finds those of a spec that select nothing. The field says of which kind, as serviceMonitorSelector does; one that is only
// called selector may select anything.
func selectors(s *mentions.Search, path []string, v any) (list []Remark) {
	if len(path) > 8 {
		return nil
	}
	if several, is := v.([]any); is {
		for i, item := range several {
			list = append(list, selectors(s, append(slices.Clone(path), strconv.Itoa(i)), item)...)
		}
	}
	at, _ := v.(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(at)) {
		sel, _ := at[field].(map[string]any)
		stem, is := strings.CutSuffix(field, "elector")
		if field == "template" || field == "podTemplate" {
			continue
		}
		to := append(slices.Clone(path), field)
		want, in := wanted(sel, field)
		if !is || len(want) == 0 || sel["matchExpressions"] != nil {
			list = append(list, selectors(s, to, at[field])...)
			continue
		}
		ns := s.Obj.GetNamespace()
		if at["namespaceSelector"] != nil && field != "namespaceSelector" || in != "matchLabels" && s.Kind.Info().Custom {
			ns = "" // gateways of a mesh select pods wherever they are
		}
		stem = strings.TrimPrefix(strings.TrimSuffix(strings.TrimSuffix(stem, "S"), "s"), "workload")
		if in != "" {
			to = append(to, in)
		}
		if r := selectsNone(s, to, stem, ns, want); r.Says != "" {
			list = append(list, r)
		}
	}
	return list
}

// wanted are the labels that a selector asks for, and the field of it that has them; "": it has them itself, as that of a Service.
func wanted(sel map[string]any, field string) (want labels.Set, in string) {
	match, in := sel, ""
	for _, name := range []string{"matchLabels", "labels"} {
		if part, is := sel[name].(map[string]any); is {
			match, in = part, name
			break
		}
	}
	if in == "" && field != "selector" {
		return nil, ""
	}
	want = labels.Set{}
	for key := range match {
		if want[key] = words.String(match, key); want[key] == "" {
			return nil, ""
		}
	}
	return want, in
}

// selectable are the kinds that a selector of no other name may select.
var selectable = []schema.GroupResource{{Resource: "pods"}, {Resource: "services"}, {Group: "apps", Resource: "deployments"},
	{Group: "apps", Resource: "statefulsets"}, {Group: "apps", Resource: "daemonsets"}}

var networkPolicies = schema.GroupResource{Group: "networking.k8s.io", Resource: "networkpolicies"}

// A Like is a label of an object that is like one that a selector asks for.
type Like struct {
	Key, Value string
	At         converge.Ref
}

// Likely is the first label of objects of some kinds that is like one that a selector asks for; any says that it selects one of them, or
// that this can't be known.
func Likely(w *converge.World, of []resource.Kind, ns string, want labels.Set) (like Like, any bool) {
	sel := want.AsSelector()
	for _, one := range of {
		in := ns
		if !one.Info().Namespaced {
			in = ""
		}
		if !w.Sees(one, in) {
			return like, true
		}
		for other := range w.Read.Each(one, in) {
			has := labels.Set(other.GetLabels())
			if sel.Matches(has) {
				return like, true
			}
			for key, value := range want {
				if like.Key == "" && has[key] != "" && has[key] != value && converge.Likest(value, []string{has[key]}) != "" {
					like = Like{key, has[key], converge.RefTo(one, other)}
				}
			}
		}
	}
	return like, false
}

// Corrected is advice to have a selector of an object ask for such a label; "": there is none. The path leads to its labels.
func (l *Like) Corrected(r converge.Ref, path ...string) string {
	if l.Key == "" {
		return ""
	}
	return "there is " + l.Key + "=" + l.Value + " at " + new(converge.Named(l.At.Kind, l.At.NS, l.At.Name)).Short() +
		": ask for that, if it is meant: " + converge.Patched(r, converge.Put(converge.Pointer(append(path, l.Key)...), l.Value))
}

func selectsNone(s *mentions.Search, path []string, word, ns string, want labels.Set) (r Remark) {
	of := s.Served(selectable...)
	if word != "" {
		of = s.KindsBy(word, "", "", true)
	}
	like, any := Likely(s.World, of, ns, want)
	if len(of) == 0 || any {
		return r
	}
	what := "nothing (no pod, service or workload there has these labels)"
	if word != "" {
		what = "no " + of[0].Info().Singular
	}
	field := strings.Join(slices.DeleteFunc(slices.Clone(path), func(part string) bool {
		return part == "matchLabels" || part[0] >= '0' && part[0] <= '9'
	}), ".")
	r.Says = "selects " + what + " by " + field + " " + want.String()
	if ns == "" && of[0].Info().Namespaced {
		r.Says += ", in any namespace"
	}
	if r.Advice = like.Corrected(converge.RefTo(s.Kind, s.Obj), path...); r.Advice != "" {
		r.Wait = converge.On("Object", like.At, "")
	}
	return r
}
