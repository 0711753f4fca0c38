package kinds_test

import (
	"slices"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// TestIdleWebhooks: rules that name what webhooks are never asked about are warned of.
func TestIdleWebhooks(t *testing.T) {
	older, err := features.New(36, nil)
	if err != nil {
		t.Fatal(err)
	}
	rule := func(groups, resources []string) admissionregistrationv1.RuleWithOperations {
		return admissionregistrationv1.RuleWithOperations{Rule: admissionregistrationv1.Rule{APIGroups: groups, Resources: resources}}
	}
	rules := []admissionregistrationv1.RuleWithOperations{rule([]string{""}, []string{"pods"}),
		rule([]string{"*"}, []string{"tokenreviews"}), rule([]string{"authentication.k8s.io"}, []string{"*"}),
		rule([]string{"apps", "authentication.k8s.io"}, []string{"tokenreviews", "deployments", "tokenreviews"})}
	const want = "webhooks[0].rules[3]: tokenreviews.authentication.k8s.io is excluded from admission webhooks; this rule will have no effect"
	for _, c := range []struct {
		kind resource.Kind
		obj  resource.Object
	}{
		{kinds.ValidatingWebhookConfigurations, &admissionregistrationv1.ValidatingWebhookConfiguration{
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{Rules: rules}}}},
		{kinds.MutatingWebhookConfigurations, &admissionregistrationv1.MutatingWebhookConfiguration{
			Webhooks: []admissionregistrationv1.MutatingWebhook{{Rules: rules}}}},
	} {
		t.Run(c.kind.Info().Plural, func(t *testing.T) {
			for _, old := range []resource.Object{nil, c.obj} {
				if got := c.kind.Warnings(nil, c.obj, old); !slices.Equal(got, []string{want}) {
					t.Errorf("%q", got)
				}
			}
			if got := c.kind.Warnings(older, c.obj, nil); len(got) > 0 {
				t.Errorf("in 1.36 %q", got)
			}
		})
	}
}

// TestSlicesByPool: slices of devices can be selected by their pool.
func TestSlicesByPool(t *testing.T) {
	if list := kinds.ResourceSlices.Info().Selectable; !slices.Contains(list, "spec.pool.name") {
		t.Errorf("selectable are %v", list)
	}
}

// TestPodKeepsClaims: a status without the claims of the pod, from an older agent, takes nothing away.
func TestPodKeepsClaims(t *testing.T) {
	older, err := features.New(36, nil)
	if err != nil {
		t.Fatal(err)
	}
	name := "c"
	old := &corev1.Pod{Status: corev1.PodStatus{ResourceClaimStatuses: []corev1.PodResourceClaimStatus{{Name: "x", ResourceClaimName: &name}},
		ExtendedResourceClaimStatus: &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "e"}}}
	for _, c := range []struct {
		name string
		on   *features.Set
		kept bool
	}{{"1.37", nil, true}, {"1.36", older, false}} {
		t.Run(c.name, func(t *testing.T) {
			p := &corev1.Pod{}
			kinds.Pods.PrepareForWrite(c.on, "status", p, old)
			if s := p.Status; (len(s.ResourceClaimStatuses) == 1) != c.kept || (s.ExtendedResourceClaimStatus != nil) != c.kept {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestForgottenLabels: annotations and labels of versions long gone are not stored.
func TestForgottenLabels(t *testing.T) {
	const old = "pod.beta.kubernetes.io/init-containers"
	shared := map[string]string{old: "[]", "a": "b"}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: shared}}
	kinds.Pods.PrepareForWrite(nil, "", p, nil)
	d := &appsv1.Deployment{}
	d.Spec.Template.Annotations = shared
	kinds.Deployments.PrepareForWrite(nil, "", d, nil)
	for _, got := range []map[string]string{p.Annotations, d.Spec.Template.Annotations} {
		if len(got) != 1 || got["a"] != "b" || len(shared) != 2 {
			t.Errorf("%v of %v", got, shared)
		}
	}
	const mark = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"
	exists := metav1.LabelSelectorRequirement{Key: mark, Operator: metav1.LabelSelectorOpExists}
	none := metav1.LabelSelectorRequirement{Key: mark, Operator: metav1.LabelSelectorOpDoesNotExist}
	other := metav1.LabelSelectorRequirement{Key: "x", Operator: metav1.LabelSelectorOpExists}
	for name, c := range map[string]struct {
		list []metav1.LabelSelectorRequirement
		want int
	}{"alone": {[]metav1.LabelSelectorRequirement{exists}, 1}, "of all": {[]metav1.LabelSelectorRequirement{none}, 0},
		"beside another": {[]metav1.LabelSelectorRequirement{exists, other}, 1}, "another": {[]metav1.LabelSelectorRequirement{other}, 1}} {
		t.Run(name, func(t *testing.T) {
			b := &policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchExpressions: c.list}}}
			was := b.DeepCopy()
			kinds.PodDisruptionBudgets.PrepareForWrite(nil, "", b, nil)
			kinds.PodDisruptionBudgets.PrepareForWrite(nil, "", was, was.DeepCopy())
			if len(b.Spec.Selector.MatchExpressions) != c.want || len(was.Spec.Selector.MatchExpressions) != len(c.list) {
				t.Errorf("%v, stored before %v", b.Spec.Selector, was.Spec.Selector)
			}
		})
	}
}
