package fair

import (
	"cmp"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/kinds/flowcontrol"
	"github.com/kloop-dev/kloop/resource"
)

// The mandatory objects: there whatever the store holds.
const (
	exempt   = "exempt"
	catchAll = "catch-all"
)

// A plan is compiled from all schemas and levels of one state. It does not change.
type plan struct {
	schemas []*flowcontrolv1.FlowSchema
	levels  []*flowcontrolv1.PriorityLevelConfiguration
	flows   []*flow // in the order in which they are tried
	rest    *flow   // of what nothing matches
}

// A flow is one schema.
type flow struct {
	names  Flow
	schema string
	rules  []flowcontrolv1.PolicyRulesWithSubjects
	by     flowcontrolv1.FlowDistinguisherMethodType
	level  *level
	counts
}

// refresh makes a new plan if the objects changed.
func (f *Fair) refresh() {
	if f.cfg.Read == nil {
		return
	}
	r, p := f.cfg.Read(), f.plan.Load()
	schemas := all(r, flowcontrol.FlowSchemas)
	levels := all(r, flowcontrol.PriorityLevelConfigurations)
	if !slices.Equal(schemas, p.schemas) || !slices.Equal(levels, p.levels) {
		f.rebuild(schemas, levels)
	}
}

func all[T resource.Object](r resource.Reader, k *resource.Def[T]) (list []T) {
	for o := range r.Each(k, "") {
		list = append(list, o.(T))
	}
	return list
}

// rebuild makes the plan of the objects. Levels that were there before go on with their requests.
func (f *Fair) rebuild(schemas []*flowcontrolv1.FlowSchema, levels []*flowcontrolv1.PriorityLevelConfiguration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rebuildLevels(levels)
	p := &plan{schemas: schemas, levels: levels}
	old := map[string]*flow{}
	if was := f.plan.Load(); was != nil {
		for _, x := range append(slices.Clip(was.flows), was.rest) {
			old[x.schema+"\x00"+x.level.name] = x
		}
	}
	ordered := slices.SortedFunc(slices.Values(withMandatory(schemas)), func(a, b *flowcontrolv1.FlowSchema) int {
		return cmp.Or(cmp.Compare(a.Spec.MatchingPrecedence, b.Spec.MatchingPrecedence), strings.Compare(a.Name, b.Name))
	})
	for _, s := range ordered {
		l := f.levels[s.Spec.PriorityLevelConfiguration.Name]
		if l == nil { // dangling: as if it were not there
			continue
		}
		x := &flow{schema: s.Name, rules: s.Spec.Rules, level: l, names: Flow{header(string(s.UID)), header(l.uid)}}
		if m := s.Spec.DistinguisherMethod; m != nil {
			x.by = m.Type
		}
		if was := old[s.Name+"\x00"+l.name]; was != nil {
			x.counts = was.counts
		} else {
			x.counts = newCounts(l.name, s.Name)
		}
		if p.flows = append(p.flows, x); s.Name == catchAll {
			p.rest = x
		}
	}
	f.plan.Store(p)
}

func header(uid string) []string {
	if uid == "" {
		return nil
	}
	return []string{uid}
}

// withMandatory adds the schemas without which some request would belong nowhere.
func withMandatory(list []*flowcontrolv1.FlowSchema) []*flowcontrolv1.FlowSchema {
	has := func(name, level string) bool {
		return slices.ContainsFunc(list, func(s *flowcontrolv1.FlowSchema) bool {
			return s.Name == name && s.Spec.PriorityLevelConfiguration.Name == level
		})
	}
	list = slices.Clone(list)
	if !has(exempt, exempt) {
		list = append(list, mandatory(exempt, 1, auth.GroupMasters))
	}
	if !has(catchAll, catchAll) {
		list = append(list, mandatory(catchAll, 10000, "*"))
	}
	return list
}

func mandatory(name string, precedence int32, group string) *flowcontrolv1.FlowSchema {
	s := &flowcontrolv1.FlowSchema{}
	s.Name, s.Spec.MatchingPrecedence = name, precedence
	s.Spec.PriorityLevelConfiguration.Name = name
	s.Spec.Rules = []flowcontrolv1.PolicyRulesWithSubjects{{
		Subjects: []flowcontrolv1.Subject{{Kind: rbacv1.GroupKind, Group: &flowcontrolv1.GroupSubject{Name: group}}},
		ResourceRules: []flowcontrolv1.ResourcePolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"},
			Namespaces: []string{"*"}, ClusterScope: true}},
		NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}}}}
	return s
}

// find returns the flow of the first schema that matches.
func (p *plan) find(a *auth.Attributes) *flow {
	for _, x := range p.flows {
		for i := range x.rules {
			if matches(&x.rules[i], a) {
				return x
			}
		}
	}
	return p.rest
}

func matches(r *flowcontrolv1.PolicyRulesWithSubjects, a *auth.Attributes) bool {
	if !slices.ContainsFunc(r.Subjects, func(s flowcontrolv1.Subject) bool { return isSubject(&s, a.User) }) {
		return false
	}
	if a.Resource == "" {
		for i := range r.NonResourceRules {
			if n := &r.NonResourceRules[i]; has(n.Verbs, a.Verb) && hasPath(n.NonResourceURLs, a.Path) {
				return true
			}
		}
		return false
	}
	for i := range r.ResourceRules {
		if matchesResource(&r.ResourceRules[i], a) {
			return true
		}
	}
	return false
}

func isSubject(s *flowcontrolv1.Subject, u *auth.User) bool {
	switch {
	case s.Kind == flowcontrolv1.SubjectKindUser && s.User != nil:
		return s.User.Name == "*" || s.User.Name == u.Name
	case s.Kind == flowcontrolv1.SubjectKindGroup && s.Group != nil:
		return s.Group.Name == "*" || u.In(s.Group.Name)
	case s.Kind == flowcontrolv1.SubjectKindServiceAccount && s.ServiceAccount != nil:
		ns, name, ok := auth.SplitServiceAccount(u.Name)
		return ok && ns == s.ServiceAccount.Namespace && (s.ServiceAccount.Name == "*" || s.ServiceAccount.Name == name)
	}
	return false
}

func matchesResource(r *flowcontrolv1.ResourcePolicyRule, a *auth.Attributes) bool {
	if !has(r.Verbs, a.Verb) || !has(r.APIGroups, a.Group) || !hasResource(r.Resources, a) {
		return false
	}
	if a.Namespace == "" {
		return r.ClusterScope
	}
	return has(r.Namespaces, a.Namespace)
}

func has(list []string, s string) bool {
	return len(list) == 1 && list[0] == "*" || slices.Contains(list, s)
}

func hasResource(list []string, a *auth.Attributes) bool {
	if a.Subresource == "" {
		return has(list, a.Resource)
	}
	if len(list) == 1 && list[0] == "*" {
		return true
	}
	for _, s := range list {
		if rest, ok := strings.CutPrefix(s, a.Resource); ok && rest != "" && rest[0] == '/' && rest[1:] == a.Subresource {
			return true
		}
	}
	return false
}

// hasPath compares paths; a path also stands for what is below it.
func hasPath(list []string, path string) bool {
	for _, p := range list {
		if p == "*" || p == path {
			return true
		}
		p = strings.TrimSuffix(p, "*")
		if below, ok := strings.CutPrefix(path, strings.TrimSuffix(p, "/")); ok && strings.HasPrefix(below, "/") {
			return true
		}
	}
	return false
}

// distinguisher tells the flows of one schema apart.
func (s Sorted) distinguisher() string {
	switch s.flow.by {
	case flowcontrolv1.FlowDistinguisherMethodByUserType:
		return s.by.User.Name
	case flowcontrolv1.FlowDistinguisherMethodByNamespaceType:
		return s.by.Namespace
	}
	return ""
}
