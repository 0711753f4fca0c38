package causes

import (
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// mostOf finds the size that a volume may have at most, in the words of its driver.
var mostOf = pattern.New(`(?i)(?:exceeds?|limit|maximum|at most|no more than)\b[a-z ]{0,40}?\b(\d+(?:[KMGT]i?)?)\b`)

// lowered is the command that has a claim ask for as much as its driver gives at most; "": nobody says, or it has that.
func lowered(c *corev1.PersistentVolumeClaim, message string) string {
	has := c.Status.Capacity[corev1.ResourceStorage]
	least := apiresource.Quantity{}
	for _, m := range mostOf.FindAllStringSubmatch(message, converge.MaxLooks) {
		most, err := resource.ParseQuantity(m[1])
		want := c.Spec.Resources.Requests[corev1.ResourceStorage]
		if err == nil && most.Cmp(has) > 0 && most.Cmp(want) < 0 {
			least = most
		}
	}
	if least.IsZero() {
		return ""
	}
	return ": " + converge.Merged(converge.RefTo(kinds.PersistentVolumeClaims, c), least.String(), "spec", "resources", "requests", "storage")
}
