package rbac

import (
	"reflect"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/resource"
)

const (
	autoupdate = "rbac.authorization.kubernetes.io/autoupdate"
	aggregate  = "rbac.authorization.k8s.io/aggregate-to-"
)

// Bootstrap returns upstream's default roles and bindings, roles first, of a cluster in which these features are on.
func Bootstrap(on *features.Set) []resource.Object {
	var list, bindings []resource.Object
	add := func(s spec) {
		if s.gate != "" && !on.On(s.gate) {
			return
		}
		list = append(list, s.clusterRole(on))
		if s.subjects != "" {
			bindings = append(bindings, &rbacv1.ClusterRoleBinding{TypeMeta: typeOf("ClusterRoleBinding"),
				ObjectMeta: s.meta("", s.name), RoleRef: refTo("ClusterRole", s.name), Subjects: s.bound()})
		}
	}
	for _, s := range clusterPolicy {
		add(s)
	}
	for _, s := range controllerPolicy {
		s.name, s.subjects = "system:controller:"+s.name, "sa:"+s.name
		add(s)
	}
	for _, s := range localPolicy {
		name := s.binding
		if name == "" {
			name = s.name
		}
		list = append(list, &rbacv1.Role{TypeMeta: typeOf("Role"), ObjectMeta: s.meta(s.namespace, s.name), Rules: parseRules(on, s.rules)})
		bindings = append(bindings, &rbacv1.RoleBinding{TypeMeta: typeOf("RoleBinding"), ObjectMeta: s.meta(s.namespace, name),
			RoleRef: refTo("Role", s.name), Subjects: s.bound()})
	}
	return append(list, bindings...)
}

// NodeRules returns the rules of the role system:node with all default features of the newest version: what an older one
// does not serve no node can ask for.
func NodeRules() []rbacv1.PolicyRule { return parseRules(nil, nodeRules) }

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

func refTo(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

func (s spec) meta(ns, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: ns, Name: name, Annotations: map[string]string{autoupdate: "true"},
		Labels: map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"}}
}

func (s spec) clusterRole(on *features.Set) *rbacv1.ClusterRole {
	r := &rbacv1.ClusterRole{TypeMeta: typeOf("ClusterRole"), ObjectMeta: s.meta("", s.name), Rules: parseRules(on, s.rules)}
	if s.labels != "" {
		r.Labels[aggregate+s.labels] = "true"
	}
	if s.gathers != "" {
		r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
			{MatchLabels: map[string]string{aggregate + s.gathers: "true"}}}}
	}
	return r
}

func (s spec) bound() (list []rbacv1.Subject) {
	for text := range strings.FieldsSeq(s.subjects) {
		kind, name, _ := strings.Cut(text, ":")
		switch kind {
		case "user":
			list = append(list, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name})
		case "group":
			list = append(list, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: name})
		case "sa":
			list = append(list, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "kube-system", Name: name})
		}
	}
	return list
}

var verbSets = map[string][]string{
	"read":  {"get", "list", "watch"},
	"write": {"create", "delete", "deletecollection", "patch", "update"},
	"all":   {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
}

func parseRules(on *features.Set, lines []string) []rbacv1.PolicyRule {
	rules := make([]rbacv1.PolicyRule, 0, len(lines))
	for _, line := range lines {
		if gate, rest, gated := strings.Cut(line, ": "); gated {
			if gate == since37 && !on.AtLeast(37) || gate != since37 && !on.On(gate) {
				continue
			}
			line = rest
		}
		rules = append(rules, parseRule(line))
	}
	return rules
}

// parseRule reads one line of the table; see spec. The table's test makes sure that all lines are well formed.
func parseRule(line string) rbacv1.PolicyRule {
	w := strings.Fields(line)
	verbs := verbSets[w[0]]
	if verbs == nil {
		verbs = strings.Split(w[0], ",")
	}
	r := rbacv1.PolicyRule{Verbs: slices.Clone(verbs)}
	if w[1] == "url" {
		r.NonResourceURLs = strings.Split(w[2], ",")
		return r
	}
	r.Resources, r.APIGroups = strings.Split(w[1], ","), []string{""}
	for i := 2; i+1 < len(w); i += 2 {
		list := strings.Split(w[i+1], ",")
		if w[i] == "named" {
			r.ResourceNames = list
			continue
		}
		if list[0] == "core" {
			list[0] = ""
		}
		r.APIGroups = list
	}
	return r
}

// Reconcile brings an object of the default policy up to date: what the default has and the old one lacks is
// added, what an administrator added stays. next is nil when nothing is to be done. replace says that the old
// one must be deleted first, because the role of a binding cannot be changed. An object annotated with
// autoupdate "false" is left alone.
func Reconcile(old, want resource.Object) (next resource.Object, replace bool) {
	if old.GetAnnotations()[autoupdate] == "false" {
		return nil, false
	}
	next = resource.Clone(old)
	next.SetLabels(union(old.GetLabels(), want.GetLabels()))
	next.SetAnnotations(union(old.GetAnnotations(), want.GetAnnotations()))
	switch n := next.(type) {
	case *rbacv1.ClusterRole:
		w := want.(*rbacv1.ClusterRole)
		n.AggregationRule = addSelectors(n.AggregationRule, w.AggregationRule)
		if w.AggregationRule == nil { // else the aggregating loop writes the rules
			_, missing, _ := covers(n.Rules, w.Rules) // what is built in is small
			n.Rules = append(n.Rules, compact(missing)...)
		}
	case *rbacv1.Role:
		_, missing, _ := covers(n.Rules, want.(*rbacv1.Role).Rules)
		n.Rules = append(n.Rules, compact(missing)...)
	case *rbacv1.ClusterRoleBinding:
		w := want.(*rbacv1.ClusterRoleBinding)
		replace, n.RoleRef, n.Subjects = n.RoleRef != w.RoleRef, w.RoleRef, addSubjects(n.Subjects, w.Subjects)
	case *rbacv1.RoleBinding:
		w := want.(*rbacv1.RoleBinding)
		replace, n.RoleRef, n.Subjects = n.RoleRef != w.RoleRef, w.RoleRef, addSubjects(n.Subjects, w.Subjects)
	}
	if reflect.DeepEqual(old, next) {
		return nil, false
	}
	return next, replace
}

// union returns a with those of b that it lacks; a's own values win.
func union(a, b map[string]string) map[string]string {
	for k, v := range b {
		if _, ok := a[k]; ok {
			continue
		}
		if a == nil {
			a = map[string]string{}
		}
		a[k] = v
	}
	return a
}

func addSubjects(have, want []rbacv1.Subject) []rbacv1.Subject {
	for _, s := range want {
		if !slices.Contains(have, s) {
			have = append(have, s)
		}
	}
	return have
}

func addSelectors(have, want *rbacv1.AggregationRule) *rbacv1.AggregationRule {
	if want == nil {
		return have
	}
	if have == nil {
		return want.DeepCopy()
	}
	for _, w := range want.ClusterRoleSelectors {
		if !slices.ContainsFunc(have.ClusterRoleSelectors, func(h metav1.LabelSelector) bool { return reflect.DeepEqual(h, w) }) {
			have.ClusterRoleSelectors = append(have.ClusterRoleSelectors, w)
		}
	}
	return have
}
