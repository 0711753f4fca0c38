package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/resource"
)

// staticSuffix ends the names of what only manifests of the API server may declare.
const staticSuffix = ".static.k8s.io"

const reservedText = `names ending with "` + staticSuffix +
	`" are reserved for static manifest-based configurations and cannot be managed via the API`

// reserving adds to check that no new object may have such a name. Before there were such manifests it was only warned of,
// as still when the object changes. A kind's own warnings come last.
func reserving[T resource.Object](check func(obj, old T) field.ErrorList, own ...func(obj T) []string) resource.Gated[T] {
	return resource.Gated[T]{
		Validate: resource.Serving(func(on *features.Set, obj, old T) field.ErrorList {
			errs := check(obj, old)
			if refused(on, obj, old) {
				errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), obj.GetName(), reservedText))
			}
			return errs
		}),
		Warn: resource.Serving(func(on *features.Set, obj, old T) (list []string) {
			if strings.HasSuffix(obj.GetName(), staticSuffix) && !refused(on, obj, old) {
				list = append(list, "metadata.name: "+reservedText)
			}
			for _, warn := range own {
				if on.On("ExcludeAdmissionWebhookVirtualResources") {
					list = append(list, warn(obj)...)
				}
			}
			return list
		}),
	}
}

// idle are the warnings of a webhook's rules that name a resource of which no webhook is asked. Stars may mean others.
func idle(rules []admissionregistrationv1.RuleWithOperations, path *field.Path) (list []string) {
	for i, r := range rules {
		if slices.Contains(r.APIGroups, "*") || slices.Contains(r.Resources, "*") {
			continue
		}
		var told []schema.GroupResource
		for _, group := range r.APIGroups {
			for _, name := range r.Resources {
				gr := schema.GroupResource{Group: group, Resource: name}
				if reviews[gr] && !slices.Contains(told, gr) {
					told = append(told, gr)
					list = append(list, fmt.Sprintf("%s: %s is excluded from admission webhooks; this rule will have no effect", path.Index(i), gr))
				}
			}
		}
	}
	return list
}

// reviews lists the kinds that answer questions about identity and rights, and are stored nowhere.
var reviews = map[schema.GroupResource]bool{
	{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"}:       true,
	{Group: "authentication.k8s.io", Resource: "tokenreviews"}:             true,
	{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}: true,
	{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"}:  true,
	{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"}:   true,
	{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}:      true,
}

func refused[T resource.Object](on *features.Set, obj, old T) bool {
	var none T
	return resource.Object(old) == resource.Object(none) && strings.HasSuffix(obj.GetName(), staticSuffix) &&
		on.On("ManifestBasedAdmissionControlConfig")
}
