package simulation

import (
	"errors"
	"fmt"
	"math/rand/v2"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// The marks of the webhooks: what the one that changes adds, and what the one that checks refuses.
const (
	hookedKey    = "proof/hooked"
	forbiddenKey = "forbidden"
)

// hooks has webhooks asked about pods and ConfigMaps.
func (p *workload) hooks(d *rand.Rand) {
	if p.model.hooked {
		return
	}
	p.model.hooked = true
	policy := []string{"Fail", "Ignore"}[d.IntN(2)]
	const from = `clientConfig: {url: "https://example.com/%s", caBundle: %s}, sideEffects: None,
		admissionReviewVersions: [v1], timeoutSeconds: %d,
		failurePolicy: %s,
		namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}`
	of := func(what, on, operation, policy string) string {
		return fmt.Sprintf(
			`{metadata: {name: %s}, webhooks: [{name: %s.proof.dev, %s, rules: [{apiGroups: [""], apiVersions: [v1], operations: [%s], `+
				`resources: [%s]}]}]}`,
			what, what, fmt.Sprintf(from, what, hookBundle, 1+d.IntN(10), policy), operation, on)
	}
	mutating := decode(&admissionregistrationv1.MutatingWebhookConfiguration{}, "%s", of("mark", "pods", "CREATE", policy))
	validating := decode(&admissionregistrationv1.ValidatingWebhookConfiguration{}, "%s", of("check", "configmaps", `CREATE, UPDATE`, "Fail"))
	p.add(d, "webhooks, "+policy, func(u *user) error {
		return u.makeAll([]made{{kinds.MutatingWebhookConfigurations, mutating}, {kinds.ValidatingWebhookConfigurations, validating}})
	})
	bad := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: p.fresh("bad"),
		Labels: map[string]string{forbiddenKey: "yes"}}}
	p.add(d, "try "+bad.Name, func(u *user) error { return u.refused(kinds.ConfigMaps, bad) })
}

// refused tries to make what must be refused. It may come before the rule is known: then the user takes it back and
// tries again.
func (u *user) refused(k resource.Kind, obj resource.Object) error {
	_, err := u.Create(u.ctx, k, obj)
	switch {
	case err == nil || apierrors.IsAlreadyExists(err):
		return errors.Join(errors.New("it was not refused"), u.drop(k, obj.GetNamespace(), obj.GetName(), metav1.DeletePropagationBackground))
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return nil
	}
	return err
}

// mostKey is the parameter of the policy, and mostReplicas its value: more than any workload asks for.
const (
	mostKey      = "most"
	mostReplicas = maxReplicas + 4
)

// policies has a policy bound the size of deployments, by a parameter that may be missing for a while.
func (p *workload) policies(d *rand.Rand) {
	if p.model.policed {
		return
	}
	p.model.policed = true
	most := decode(&corev1.ConfigMap{}, `{metadata: {name: limits, namespace: default}, data: {%s: "%d"}}`, mostKey, mostReplicas)
	policy := decode(&admissionregistrationv1.ValidatingAdmissionPolicy{},
		`{metadata: {name: size}, spec: {paramKind: {apiVersion: v1, kind: ConfigMap}, failurePolicy: Fail,
		matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]},
		validations: [{expression: "object.spec.replicas <= int(params.data.%s)", messageExpression: "'more than ' + params.data.%s"}]}}`,
		mostKey, mostKey)
	binding := decode(&admissionregistrationv1.ValidatingAdmissionPolicyBinding{},
		`{metadata: {name: size}, spec: {policyName: size, validationActions: [Deny],
		matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}},
		paramRef: {name: limits, namespace: default, parameterNotFoundAction: Deny}}}`)
	p.add(d, "policy", func(u *user) error {
		return u.makeAll([]made{{kinds.ConfigMaps, most}, {kinds.ValidatingAdmissionPolicies, policy},
			{kinds.ValidatingAdmissionPolicyBindings, binding}})
	})
	greedy := deploymentOf(d, ns, p.fresh("greedy"))
	*greedy.Spec.Replicas = mostReplicas + 1
	p.add(d, "try "+greedy.Name, func(u *user) error { return u.refused(kinds.Deployments, greedy) })
	p.add(d, "lose the policy's parameter", func(u *user) error {
		return u.drop(kinds.ConfigMaps, ns, most.Name, metav1.DeletePropagationBackground)
	})
	p.add(d, "find the policy's parameter", func(u *user) error { return u.make1(kinds.ConfigMaps, most) })
}
