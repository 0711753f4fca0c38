package rbac

import (
	"errors"
	"fmt"
	"iter"
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
	if a.OfPath() {
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
	return strings.HasSuffix(pattern, "*") && strings.HasPrefix(path, strings.TrimRight(pattern, "*"))
}

// Bounds of what is compared. The rules of one role may stand for more permissions than memory holds: three lists of 700
// are 343 million.
const (
	maxCompared = 30_000_000 // strings, a tenth of a second's worth
	maxMissing  = 1000       // permissions that are named when they are not held
)

// errTooMany says that rules are too many to be compared.
var errTooMany = errors.New(
	"the rules stand for too many permissions to compare them: split them, or have somebody write them who may escalate")

// covers tells whether every permission in wanted is given by held; missing are the smallest rules that are not, the first
// maxMissing of them. Where it would take too long it says so.
//
// Unlike Kubernetes, which takes all rules apart in memory, whatever it costs.
func covers(held, wanted []rbacv1.PolicyRule) (ok bool, missing []rbacv1.PolicyRule, err error) {
	left, each := maxCompared, 1
	for i := range held {
		h := &held[i]
		each += len(h.Verbs) + len(h.APIGroups) + len(h.Resources) + len(h.ResourceNames) + len(h.NonResourceURLs)
	}
	for i := range wanted {
		if slices.ContainsFunc(held, func(h rbacv1.PolicyRule) bool { return coversAll(&h, &wanted[i]) }) {
			continue
		}
		for atom := range split(&wanted[i]) {
			if left -= each; left < 0 {
				return false, missing, errTooMany
			}
			if slices.ContainsFunc(held, func(h rbacv1.PolicyRule) bool { return coversOne(&h, &atom) }) {
				continue
			}
			if missing = append(missing, atom); len(missing) == maxMissing {
				return false, missing, nil
			}
		}
	}
	return len(missing) == 0, missing, nil
}

// coversAll says that one rule that is held gives all permissions of another. It may be slow to see that, but never wrong.
func coversAll(h, w *rbacv1.PolicyRule) bool {
	all := func(list []string, in func(string) bool) bool {
		return !slices.ContainsFunc(list, func(s string) bool { return !in(s) })
	}
	if len(h.Verbs)+len(h.APIGroups)+len(h.Resources)+len(h.ResourceNames)+len(h.NonResourceURLs) > 256 {
		return false // long lists are not compared
	}
	return all(w.Verbs, func(s string) bool { return has(h.Verbs, s) }) &&
		all(w.APIGroups, func(s string) bool { return has(h.APIGroups, s) }) &&
		all(w.Resources, func(s string) bool {
			name, sub, _ := strings.Cut(s, "/")
			return hasResource(h.Resources, name, sub)
		}) &&
		all(w.NonResourceURLs, func(s string) bool {
			return slices.ContainsFunc(h.NonResourceURLs, func(u string) bool { return covered(u, s) })
		}) &&
		(len(h.ResourceNames) == 0 || len(w.ResourceNames) > 0 &&
			all(w.ResourceNames, func(s string) bool { return slices.Contains(h.ResourceNames, s) }))
}

// split takes a rule apart into rules of one verb for one thing.
func split(r *rbacv1.PolicyRule) iter.Seq[rbacv1.PolicyRule] {
	return func(yield func(rbacv1.PolicyRule) bool) {
		for _, group := range r.APIGroups {
			for _, res := range r.Resources {
				for _, verb := range r.Verbs {
					if !splitNames(group, res, verb, r.ResourceNames, yield) {
						return
					}
				}
			}
		}
		for _, url := range r.NonResourceURLs {
			for _, verb := range r.Verbs {
				if !yield(rbacv1.PolicyRule{NonResourceURLs: []string{url}, Verbs: []string{verb}}) {
					return
				}
			}
		}
	}
}

func splitNames(group, res, verb string, names []string, yield func(rbacv1.PolicyRule) bool) bool {
	atom := rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{res}, Verbs: []string{verb}}
	if len(names) == 0 {
		return yield(atom)
	}
	for _, name := range names {
		atom.ResourceNames = []string{name}
		if !yield(atom) {
			return false
		}
	}
	return true
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
