// Package clusterroleaggregation puts cluster roles together from others.
//
//	reads   ClusterRole
//	writes  ClusterRole: rules
//	rule    the rules of a role with an aggregationRule are those of all roles that it selects, each once
package clusterroleaggregation

import (
	"context"
	"encoding/json"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds/rbac"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Controller is the loop: wake on a role that is put together, and on every other one.
var Controller = &loop.Controller[*rbacv1.ClusterRole]{
	Name:   "clusterrole-aggregation",
	For:    rbac.ClusterRoles,
	Skip:   func(r *rbacv1.ClusterRole) bool { return r.AggregationRule == nil },
	Wake:   []loop.Wake{{Kind: rbac.ClusterRoles, Keys: parts}},
	Writes: []resource.Kind{rbac.ClusterRoles},
	Reconcile: func(ctx context.Context, c *loop.Ctx, r *rbacv1.ClusterRole) (time.Duration, error) {
		rules := union(r, resource.List(c, rbac.ClusterRoles, ""))
		if equality.Semantic.DeepEqual(rules, r.Rules) {
			return 0, nil
		}
		role := map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": r.Name}}
		if len(rules) > 0 { // who has none owns none
			role["rules"] = rules
		}
		data, err := json.Marshal(role)
		if err != nil {
			return 0, err
		}
		return 0, c.Patch(ctx, rbac.ClusterRoles, r, client.Patch{Type: types.ApplyPatchType, Data: data, Force: true,
			Manager: "clusterrole-aggregation-controller"})
	},
}

// parts wakes every role that is put together: any other one may be a part of it, or have been.
func parts(_ client.Change, read resource.Reader, wake func(ns, name string)) {
	for obj := range read.Each(rbac.ClusterRoles, "") {
		if obj.(*rbacv1.ClusterRole).AggregationRule != nil {
			wake("", obj.GetName())
		}
	}
}

// union is pure: the rules of the roles that r selects, in the order of their names.
func union(r *rbacv1.ClusterRole, all []*rbacv1.ClusterRole) []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{}
	for i := range r.AggregationRule.ClusterRoleSelectors {
		sel, err := metav1.LabelSelectorAsSelector(&r.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			continue // validation refuses such a selector
		}
		for _, part := range all {
			if part.Name == r.Name || !sel.Matches(labels.Set(part.Labels)) {
				continue
			}
			for _, rule := range part.Rules {
				if !has(rules, rule) {
					rules = append(rules, rule)
				}
			}
		}
	}
	return rules
}

func has(list []rbacv1.PolicyRule, rule rbacv1.PolicyRule) bool {
	for i := range list {
		if equality.Semantic.DeepEqual(list[i], rule) {
			return true
		}
	}
	return false
}
