package job

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// judge applies the job's pod failure policy to a pod that failed: the first rule that matches decides. Without
// one the failure counts.
func judge(j *batchv1.Job, p *corev1.Pod) (action batchv1.PodFailurePolicyAction, why string) {
	if j.Spec.PodFailurePolicy == nil || p.Status.Phase != corev1.PodFailed {
		return batchv1.PodFailurePolicyActionCount, ""
	}
	for i := range j.Spec.PodFailurePolicy.Rules {
		r := &j.Spec.PodFailurePolicy.Rules[i]
		if cause := matches(r, p); cause != "" {
			return r.Action, fmt.Sprintf("%s matching %s rule at index %d", cause, r.Action, i)
		}
	}
	return batchv1.PodFailurePolicyActionCount, ""
}

// matches says how the pod failed in the rule's sense; "" when it did not.
func matches(r *batchv1.PodFailurePolicyRule, p *corev1.Pod) string {
	if r.OnExitCodes != nil {
		for _, s := range slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses) {
			t := s.State.Terminated
			if t == nil || t.ExitCode == 0 || r.OnExitCodes.ContainerName != nil && *r.OnExitCodes.ContainerName != s.Name {
				continue
			}
			if slices.Contains(r.OnExitCodes.Values, t.ExitCode) == (r.OnExitCodes.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn) {
				return fmt.Sprintf("Container %s for pod %s/%s failed with exit code %d", s.Name, p.Namespace, p.Name, t.ExitCode)
			}
		}
		return ""
	}
	for _, want := range r.OnPodConditions {
		for _, c := range p.Status.Conditions {
			if c.Type == want.Type && (c.Status == want.Status || want.Status == "" && c.Status == corev1.ConditionTrue) {
				return fmt.Sprintf("Pod %s/%s has condition %s", p.Namespace, p.Name, c.Type)
			}
		}
	}
	return ""
}

// enough says whether the success policy is met, and by which rule.
func enough(j *batchv1.Job, done indexes, completions int) (why string, met bool) {
	if j.Spec.SuccessPolicy == nil {
		return "", false
	}
	for i, r := range j.Spec.SuccessPolicy.Rules {
		n, want := done.total(), 0
		if r.SucceededIndexes != nil {
			list := parseIndexes(*r.SucceededIndexes, completions)
			n, want = done.common(list), list.total()
		}
		if r.SucceededCount != nil {
			want = int(*r.SucceededCount)
		}
		if n >= want {
			return fmt.Sprintf("Matched rules at index %d", i), true
		}
	}
	return "", false
}
