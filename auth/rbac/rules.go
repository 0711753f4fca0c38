package rbac

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/kloop-dev/kloop/auth"
)

// Allows tells whether the rule permits what is asked.
func Allows(r *rbacv1.PolicyRule, a *auth.Attributes) bool {
	if !has(r.Verbs, a.Verb) {
		return false
	}
	if a.Resource == "" {
		return slices.ContainsFunc(r.NonResourceURLs, func(u string) bool { return covered(u, a.Path) })
	}
	return has(r.APIGroups, a.Group) && hasResource(r.Resources, a.Resource, a.Subresource) &&
		(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, a.Name))
}

// has tells whether the list contains the value or the star.
func has(list []string, value string) bool {
	for _, s := range list {
		if s == value || s == "*" {
			return true
		}
	}
	return false
}

func hasResource(list []string, name, sub string) bool {
	for _, s := range list {
		switch {
		case s == "*":
			return true
		case sub == "":
			if s == name {
				return true
			}
		case len(s) > len(sub) && strings.HasSuffix(s, sub) && s[len(s)-len(sub)-1] == '/':
			if owner := s[:len(s)-len(sub)-1]; owner == name || owner == "*" {
				return true
			}
		}
	}
	return false
}

// covered tells whether the path is the pattern or, when that ends in a star, begins like it.
func covered(pattern, path string) bool {
	if pattern == path || pattern == "*" {
		return true
	}
	prefix, open := strings.CutSuffix(pattern, "*")
	return open && strings.HasPrefix(path, prefix)
}

// covers tells whether every permission in wanted is given by held; missing are the smallest rules that are not.
func covers(held, wanted []rbacv1.PolicyRule) (ok bool, missing []rbacv1.PolicyRule) {
	for _, w := range wanted {
		for _, atom := range split(w) {
			if !slices.ContainsFunc(held, func(h rbacv1.PolicyRule) bool { return coversOne(&h, &atom) }) {
				missing = append(missing, atom)
			}
		}
	}
	return len(missing) == 0, missing
}

// split takes a rule apart into rules of one verb for one thing.
func split(r rbacv1.PolicyRule) (atoms []rbacv1.PolicyRule) {
	for _, group := range r.APIGroups {
		for _, res := range r.Resources {
			for _, verb := range r.Verbs {
				atom := rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{res}, Verbs: []string{verb}}
				if len(r.ResourceNames) == 0 {
					atoms = append(atoms, atom)
				}
				for _, name := range r.ResourceNames {
					atom.ResourceNames = []string{name}
					atoms = append(atoms, atom)
				}
			}
		}
	}
	for _, url := range r.NonResourceURLs {
		for _, verb := range r.Verbs {
			atoms = append(atoms, rbacv1.PolicyRule{NonResourceURLs: []string{url}, Verbs: []string{verb}})
		}
	}
	return atoms
}

// coversOne tells whether the rule gives the atom's permission.
func coversOne(h, atom *rbacv1.PolicyRule) bool {
	if !has(h.Verbs, atom.Verbs[0]) {
		return false
	}
	if len(atom.NonResourceURLs) > 0 {
		return slices.ContainsFunc(h.NonResourceURLs, func(u string) bool { return covered(u, atom.NonResourceURLs[0]) })
	}
	name, sub, _ := strings.Cut(atom.Resources[0], "/")
	return has(h.APIGroups, atom.APIGroups[0]) && hasResource(h.Resources, name, sub) &&
		(len(h.ResourceNames) == 0 || len(atom.ResourceNames) > 0 && slices.Contains(h.ResourceNames, atom.ResourceNames[0]))
}

// compact joins atoms that differ only in their verbs.
func compact(atoms []rbacv1.PolicyRule) (rules []rbacv1.PolicyRule) {
	at := map[string]int{}
	for _, a := range atoms {
		key := fmt.Sprintf("%q %q %q %q", a.APIGroups, a.Resources, a.ResourceNames, a.NonResourceURLs)
		if i, ok := at[key]; ok && len(a.NonResourceURLs) == 0 {
			rules[i].Verbs = append(rules[i].Verbs, a.Verbs...)
			continue
		}
		at[key] = len(rules)
		rules = append(rules, a)
	}
	return rules
}

// text renders a rule as error messages show it.
func text(r rbacv1.PolicyRule) string {
	var parts []string
	for _, p := range []struct {
		name string
		list []string
	}{{"APIGroups", r.APIGroups}, {"Resources", r.Resources}, {"NonResourceURLs", r.NonResourceURLs},
		{"ResourceNames", r.ResourceNames}, {"Verbs", r.Verbs}} {
		if len(p.list) > 0 {
			parts = append(parts, fmt.Sprintf("%s:%q", p.name, p.list))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
