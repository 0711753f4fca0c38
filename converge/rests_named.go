package converge

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
)

// Of an object with which nothing seems to be wrong, whoever asks for it by name hears what it names or selects that is not there, and
// what its controller says of it beside that all is well. None of it is a gap: it may be meant so.

// A remark is such a thing, with what would help.
type remark struct {
	says   string
	wait   *convergence.Wait
	advice string
	part   *Step // of what was made for it, what is not well
}

// templated are the kinds of Kubernetes whose templates name what only matters when pods are made of them.
var templated = []resource.Kind{kinds.Deployments, kinds.StatefulSets, kinds.DaemonSets, kinds.Jobs, kinds.CronJobs, kinds.NetworkPolicies,
	kinds.ResourceClaims}

// remarked has all remarks about an object in one. It waits for what the first waits for: whether the reader may see into another
// namespace is asked of that alone.
func (s *search) remarked() (all remark) {
	if s.obj.GetDeletionTimestamp() != nil {
		return all
	}
	for _, r := range s.remarks() {
		if all.wait != nil && r.wait != nil && r.wait.On.Namespace != "" && r.wait.On.Namespace != s.obj.GetNamespace() {
			continue
		}
		if all.wait == nil {
			all.wait, all.advice = r.wait, r.advice
		}
		all.says, all.part = strings.TrimPrefix(all.says+"; "+r.says, "; "), cmp.Or(all.part, r.part)
	}
	return all
}

// remarks say what is not quite right with an object that has no gap.
func (s *search) remarks() (list []remark) {
	tree, custom := content(s.obj)
	if !custom {
		if !slices.ContainsFunc(templated, func(t resource.Kind) bool { return t.Info().GR() == s.kind.Info().GR() }) {
			return nil
		}
		data, err := json.Marshal(s.obj)
		if err != nil || json.Unmarshal(data, &tree) != nil {
			return nil
		}
	}
	for _, m := range s.mentions(tree) {
		if says := m.says(s.obj.GetNamespace()); says != "" && !m.loose {
			list = append(list, remark{says: says, wait: m.wait(), advice: s.nearTo(m.wait())})
		}
	}
	if custom || s.kind.Info().GR() == kinds.NetworkPolicies.Info().GR() {
		list = append(list, s.selectors("spec", tree["spec"], 0)...)
	}
	if !custom {
		return list
	}
	list = append(list, s.besides(tree)...)
	if bad := append(s.applied(tree), (&look{World: s.World, kind: s.kind, obj: s.obj}).partsOf(s.obj, 0)...); len(bad) > 0 {
		if part := s.step(bad[0]); part != nil {
			list = append(list, remark{says: "has a part that is not well: " + part.Gap().Verdict, wait: on("Object", bad[0], ""), part: part})
		}
	}
	return list
}

// applied finds among the objects that a status lists, as Argo CD's of what it applied, one that is not well.
func (s *search) applied(tree map[string]any) (bad []Ref) {
	status, _ := tree["status"].(map[string]any)
	s.found = nil
	for _, field := range []string{"resources", "childReferences", "relatedObjects"} {
		s.walk("status."+field, "resourceRef", status[field], 0)
	}
	for _, m := range s.found {
		if m.obj != nil && !s.Health(m.Kind, m.obj).Converged() {
			bad = append(bad, m.Ref)
		}
	}
	done, _ := status["operationState"].(map[string]any)
	for _, m := range spoken.FindAllStringSubmatch(text(done, "message"), maxBranches) { // what a sync waits for
		for _, k := range s.kindsBy(m[1], "", "", true) {
			ns := cmp.Or(m[2], cmp.Or(destination(tree), s.obj.GetNamespace()))
			if obj := s.Read.Lookup(k, ns, m[3]); obj != nil && !s.Health(k, obj).Converged() {
				bad = append(bad, Ref{k, ns, m[3]})
			}
		}
	}
	return bad
}

// destination is the namespace that an application of Argo CD goes to.
func destination(tree map[string]any) string {
	spec, _ := tree["spec"].(map[string]any)
	to, _ := spec["destination"].(map[string]any)
	return text(to, "namespace")
}

// besides reads what the status says beside that all is well: conditions with words for what went wrong, work that takes long, and the
// last warning.
func (s *search) besides(tree map[string]any) (list []remark) {
	status, _ := tree["status"].(map[string]any)
	conds := conditionsIn(status)
	for _, typ := range slices.Sorted(maps.Keys(conds)) {
		c := conds[typ]
		late := !c.since().IsZero() && s.Now.Sub(c.since()) > 10*time.Minute
		busy := c.Status == "True" && (typ == "Progressing" || typ == "Reconciling") && late && strings.HasPrefix(c.Reason, "Wait")
		if !busy && (c.Status != "False" || wrongBy(typ) != "" || !faulty.MatchString(c.Message)) {
			continue
		}
		says := fmt.Sprintf("says %s=%s of itself", typ, c.Status)
		if !c.since().IsZero() {
			says += " since " + ago(s.Now.Sub(c.since()))
		}
		list = append(list, remark{says: says + ": " + oneLine(cmp.Or(c.Message, c.Reason))})
	}
	if all := countsOf(status); all != "" {
		list = append(list, remark{says: "counts " + all})
	}
	if e := (&look{World: s.World, obj: s.obj}).newestWarning(); e != nil {
		list = append(list, remark{says: "has a warning of " + ago(s.Now.Sub(told(e))) + " ago, " + e.Reason + ": " + oneLine(e.Message)})
	}
	return list
}

// selectors finds those of a spec that select nothing. The field says of which kind, as serviceMonitorSelector does; one that is only
// called selector may select anything.
func (s *search) selectors(path string, v any, depth int) (list []remark) {
	if several, is := v.([]any); is && depth < 6 {
		for _, item := range several {
			list = append(list, s.selectors(path, item, depth+1)...)
		}
	}
	at, _ := v.(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(at)) {
		sel, _ := at[field].(map[string]any)
		match, _ := sel["matchLabels"].(map[string]any)
		stem, is := strings.CutSuffix(field, "elector")
		if field == "template" || field == "podTemplate" || depth > 6 {
			continue
		}
		if !is || len(match) == 0 || sel["matchExpressions"] != nil {
			list = append(list, s.selectors(path+"."+field, at[field], depth+1)...)
			continue
		}
		want := labels.Set{}
		for key := range match {
			want[key] = text(match, key)
		}
		ns := s.obj.GetNamespace()
		if at["namespaceSelector"] != nil && field != "namespaceSelector" {
			ns = ""
		}
		if r := s.selectsNone(path+"."+field, strings.TrimSuffix(strings.TrimSuffix(stem, "S"), "s"), ns, want); r.says != "" {
			list = append(list, r)
		}
	}
	return list
}

// selectable are the kinds that a selector of no other name may select.
var selectable = []resource.Kind{kinds.Pods, kinds.Services, kinds.Deployments, kinds.StatefulSets, kinds.DaemonSets}

func (s *search) selectsNone(path, word, ns string, want labels.Set) remark {
	of := selectable
	if word != "" {
		of = s.kindsBy(word, "", "", true)
	}
	sel, near := want.AsSelector(), remark{}
	if len(of) == 0 {
		return near
	}
	for _, one := range of {
		in := ns
		if !one.Info().Namespaced {
			in = ""
		}
		if !s.Sees(one, in) {
			return remark{}
		}
		for other := range s.Read.Each(one, in) {
			has := labels.Set(other.GetLabels())
			if sel.Matches(has) {
				return remark{}
			}
			for key, value := range want {
				if near.advice == "" && has[key] != "" && likest(value, []string{has[key]}) != "" {
					near.advice = "there is " + key + "=" + has[key] + " at " +
						new(objectOf(one, other)).Short() + ": correct " + path + ", if that is meant"
					near.wait = on("Object", refTo(one, other), "")
				}
			}
		}
	}
	what := "nothing (no pod, service or workload there has these labels)"
	if word != "" {
		what = "no " + of[0].Info().Singular
	}
	near.says = "selects " + what + " by " + path + " " + want.String()
	if ns == "" && of[0].Info().Namespaced {
		near.says += ", in any namespace"
	}
	return near
}
