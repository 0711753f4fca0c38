package podspec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// RestartRule returns the first rule of a container that its exit code fits; nil: its policy decides (KEP-5307).
func RestartRule(c *corev1.Container, code int32) *corev1.ContainerRestartRule {
	if c.RestartPolicy == nil { // rules come with a policy of the container's own
		return nil
	}
	for i := range c.RestartPolicyRules {
		e := c.RestartPolicyRules[i].ExitCodes
		if e != nil && slices.Contains(e.Values, code) == (e.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn) {
			return &c.RestartPolicyRules[i]
		}
	}
	return nil
}

// Restarts says whether a container that ended with the code lives again: by its own rules, else by its own policy, else by that of its
// pod.
func Restarts(pod corev1.RestartPolicy, c *corev1.Container, code int32) bool {
	if RestartRule(c, code) != nil {
		return true
	}
	if c.RestartPolicy != nil {
		pod = corev1.RestartPolicy(*c.RestartPolicy)
	}
	return pod == corev1.RestartPolicyAlways || pod == corev1.RestartPolicyOnFailure && code != 0
}
