package match

import (
	"context"
	"iter"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/kinds/autoscaling"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// state knows one namespace, "ns", with the label team=x.
type state struct{ resource.Reader }

func (state) Lookup(k resource.Kind, _, name string) resource.Object {
	if k.Info().Plural == "namespaces" && name == "ns" {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: map[string]string{"team": "x"}}}
	}
	return nil
}

func (state) Each(resource.Kind, string) iter.Seq[resource.Object] { return nil }

func labelled(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func rule(group, version, resource string, ops ...admissionregistrationv1.OperationType) admissionregistrationv1.NamedRuleWithOperations {
	return admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: admissionregistrationv1.RuleWithOperations{Operations: ops,
		Rule: admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}}}}
}

func TestMatch(t *testing.T) {
	equivalent, namespaced, cluster := admissionregistrationv1.Equivalent, admissionregistrationv1.NamespacedScope,
		admissionregistrationv1.ClusterScope
	pod := func(op admission.Op, sub string) *admission.Request {
		return &admission.Request{Op: op, Kind: core.Pods, GVK: core.Pods.GVK, Namespace: "ns", Name: "p", Sub: sub,
			Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}}}}
	}
	create := pod(admission.Create, "")
	hpa := &admission.Request{Op: admission.Update, Kind: autoscaling.HorizontalPodAutoscalers, Namespace: "ns", Name: "h",
		GVK: autoscaling.HorizontalPodAutoscalers.GVK.GroupKind().WithVersion("v2")}
	node := &admission.Request{Op: admission.Create, Kind: core.Nodes, GVK: core.Nodes.GVK, Name: "n"}
	space := &admission.Request{Op: admission.Create, Kind: core.Namespaces, GVK: core.Namespaces.GVK, Name: "new", Namespace: "new",
		Object: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new", Labels: map[string]string{"team": "y"}}}}
	lost := pod(admission.Create, "")
	lost.Namespace = "gone"
	all := admissionregistrationv1.OperationAll
	scoped := func(s admissionregistrationv1.ScopeType) *admissionregistrationv1.MatchResources {
		r := rule("*", "*", "*", all)
		r.Scope = &s
		return &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{r}}
	}
	named := rule("", "v1", "pods", all)
	named.ResourceNames = []string{"other"}
	for _, c := range []struct {
		name    string
		m       *admissionregistrationv1.MatchResources
		r       *admission.Request
		want    bool
		version string
		err     bool
	}{
		{name: "nil", r: create, want: true, version: "v1"},
		{name: "no rules", m: &admissionregistrationv1.MatchResources{}, r: create, want: true, version: "v1"},
		{name: "exact", m: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{rule("",
			"v1", "pods", admissionregistrationv1.Create)}}, r: create, want: true, version: "v1"},
		{name: "other operation", m: &admissionregistrationv1.MatchResources{
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{rule("", "v1", "pods", admissionregistrationv1.Delete)}}, r: create},
		{name: "other name", m: &admissionregistrationv1.MatchResources{
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{named}}, r: create},
		{name: "subresource not named",
			m: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{rule("", "v1",
				"pods", all)}}, r: pod(admission.Update, "status")},
		{name: "subresource", m: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{
			rule("", "v1", "*/status", all)}}, r: pod(admission.Update, "status"), want: true, version: "v1"},
		{name: "every subresource", m: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{
			rule("", "v1", "pods/*", all)}}, r: pod(admission.Connect, "exec"), want: true, version: "v1"},
		{name: "excluded", m: &admissionregistrationv1.MatchResources{
			ExcludeResourceRules: []admissionregistrationv1.NamedRuleWithOperations{rule("*", "*", "pods", all)}}, r: create},
		{name: "another version", m: &admissionregistrationv1.MatchResources{
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{rule("autoscaling", "v1", "*", all)}}, r: hpa},
		{name: "equivalent version", m: &admissionregistrationv1.MatchResources{MatchPolicy: &equivalent,
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{rule("autoscaling", "v1", "*", all)}}, r: hpa, want: true,
			version: "v1"},
		{name: "own version first", m: &admissionregistrationv1.MatchResources{MatchPolicy: &equivalent,
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{rule("autoscaling", "*", "*", all)}}, r: hpa, want: true,
			version: "v2"},
		{name: "namespaced", m: scoped(namespaced), r: create, want: true, version: "v1"},
		{name: "not namespaced", m: scoped(namespaced), r: node},
		{name: "a namespace is not namespaced", m: scoped(namespaced), r: space},
		{name: "a namespace is of the cluster", m: scoped(cluster), r: space, want: true, version: "v1"},
		{name: "not of the cluster", m: scoped(cluster), r: create},
		{name: "namespace selected", m: &admissionregistrationv1.MatchResources{NamespaceSelector: labelled("team", "x")}, r: create,
			want: true, version: "v1"},
		{name: "namespace not selected", m: &admissionregistrationv1.MatchResources{NamespaceSelector: labelled("team", "y")}, r: create},
		{name: "new namespace selected", m: &admissionregistrationv1.MatchResources{NamespaceSelector: labelled("team", "y")}, r: space,
			want: true, version: "v1"},
		{name: "nodes have no namespace", m: &admissionregistrationv1.MatchResources{NamespaceSelector: labelled("team", "y")}, r: node,
			want: true, version: "v1"},
		{name: "no such namespace", m: &admissionregistrationv1.MatchResources{NamespaceSelector: labelled("team", "y")}, r: lost, err: true},
		{name: "object selected", m: &admissionregistrationv1.MatchResources{ObjectSelector: labelled("app", "a")}, r: create, want: true,
			version: "v1"},
		{name: "object not selected", m: &admissionregistrationv1.MatchResources{ObjectSelector: labelled("app", "b")}, r: create},
		{name: "broken selector", m: &admissionregistrationv1.MatchResources{
			ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "?"}}}},
			r:   create,
			err: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.r.Read = state{}
			as, ok, err := New(c.m).Match(context.Background(), c.r)
			if ok != c.want || (err != nil) != c.err || ok && as.Resource.Version != c.version {
				t.Errorf("%s: %v %v %v", c.name, as, ok, err)
			}
		})
	}
	if _, _, err := New(&admissionregistrationv1.MatchResources{NamespaceSelector: labelled("a", "b")}).Match(context.Background(),
		lost); !apierrors.IsNotFound(err) {
		t.Errorf("no such namespace: %v", err)
	}
	if _, ok, _ := NewHook(nil, nil, nil, nil).Match(context.Background(), create); ok {
		t.Error("a webhook without rules is called")
	}
}
