package admission

import (
	"github.com/kloop-dev/kloop/auth"
)

// Config holds what some plugins need beyond the request.
type Config struct {
	Authorize auth.Authorizer // for what a caller must be allowed beside the write itself
}

// Plugins returns upstream's default plugins in upstream's order, with NodeRestriction.
func Plugins(cfg Config) Chain {
	return Chain{
		{Name: "NamespaceLifecycle", Mutate: namespaceLifecycle},
		{Name: "ServiceAccount", Mutate: mutateServiceAccount, Validate: validateServiceAccount},
		{Name: "TaintNodesByCondition", Mutate: taintNewNodes},
		{Name: "Priority", Mutate: mutatePriority, Validate: validatePriority},
		{Name: "DefaultTolerationSeconds", Mutate: defaultTolerationSeconds},
	}
}
