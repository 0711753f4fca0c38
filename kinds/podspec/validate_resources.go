package podspec

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	podresource "k8s.io/component-helpers/resource"

	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

var (
	// counted are the resources that come in whole pieces.
	counted = sets.New[corev1.ResourceName]("pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
		"persistentvolumeclaims", "services.nodeports", "services.loadbalancers")
	// standard are the names that are known without a domain in front.
	standard = counted.Union(sets.New[corev1.ResourceName]("cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory",
		"requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage", "storage", "requests.storage"))
	computing = sets.New[corev1.ResourceName]("cpu", "memory", "ephemeral-storage")
)

// IsStandardResource says whether a name means something without a domain in front.
func IsStandardResource(name corev1.ResourceName) bool {
	return standard.Has(name) || isHugePages(name) || strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
}

// IsNativeResource says whether a name is one of Kubernetes' own.
func IsNativeResource(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// IsExtendedResource says whether a name is one of a device's.
func IsExtendedResource(name corev1.ResourceName) bool {
	return !IsNativeResource(name) && !strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) &&
		len(utilvalidation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) == 0
}

// IsOvercommitAllowed says whether a limit may be higher than what is requested.
func IsOvercommitAllowed(name corev1.ResourceName) bool {
	return IsNativeResource(name) && !isHugePages(name)
}

// IsCountedResource says whether a resource comes in whole pieces.
func IsCountedResource(name corev1.ResourceName) bool {
	return counted.Has(name) || IsExtendedResource(name)
}

// ValidateResourceName checks the name of a apiresource.
func ValidateResourceName(name corev1.ResourceName, path *field.Path) field.ErrorList {
	if computing.Has(name) {
		return nil
	}
	errs := rule.Says(utilvalidation.IsQualifiedName(string(name)), name, path)
	if len(errs) == 0 && !strings.Contains(string(name), "/") && !IsStandardResource(name) {
		errs = append(errs, field.Invalid(path, name, "must be a standard resource type or fully qualified"))
	}
	return errs
}

// ValidateContainerResourceName checks the name of a resource that a container asks for.
func ValidateContainerResourceName(name corev1.ResourceName, path *field.Path) field.ErrorList {
	errs := ValidateResourceName(name, path)
	switch {
	case !strings.Contains(string(name), "/"):
		if !computing.Has(name) && !isHugePages(name) {
			errs = append(errs, field.Invalid(path, name, "must be a standard resource for containers"))
		}
	case !IsNativeResource(name) && !IsExtendedResource(name):
		errs = append(errs, field.Invalid(path, name, "doesn't follow extended resource name standard"))
	}
	return errs
}

// ValidateQuantity checks an amount of a apiresource.
func ValidateQuantity(name corev1.ResourceName, q apiresource.Quantity, path *field.Path) (errs field.ErrorList) {
	if q.Sign() < 0 {
		errs = append(errs, field.Invalid(path, q.String(), "must be greater than or equal to 0"))
	}
	if IsCountedResource(name) && q.MilliValue()%1000 != 0 {
		errs = append(errs, field.Invalid(path, q.String(), "must be an integer"))
	}
	return errs
}

// ValidateAmount refuses less than nothing.
func ValidateAmount(q apiresource.Quantity, path *field.Path) field.ErrorList {
	if q.Value() < 0 {
		return field.ErrorList{field.Invalid(path, q.Value(), "must be a valid resource quantity")}
	}
	return nil
}

// ValidateOverhead checks what a pod needs beside its containers.
func ValidateOverhead(list corev1.ResourceList, path *field.Path) field.ErrorList {
	return validateRequirements(&corev1.ResourceRequirements{Limits: list}, nil, path, ValidateContainerResourceName)
}

type nameCheck func(corev1.ResourceName, *field.Path) field.ErrorList

func validateRequirements(r *corev1.ResourceRequirements, claims sets.Set[string], path *field.Path, named nameCheck) field.ErrorList {
	if len(r.Limits)+len(r.Requests)+len(r.Claims) == 0 {
		return nil
	}
	limits, requests := path.Child("limits"), path.Child("requests")
	var errs field.ErrorList
	for _, name := range sortedNames(r.Limits) {
		errs = append(errs, checkAmount(name, r.Limits[name], limits, named)...)
	}
	for _, name := range sortedNames(r.Requests) {
		q := r.Requests[name]
		errs = append(errs, checkAmount(name, q, requests, named)...)
		limit, limited := r.Limits[name]
		switch {
		case !limited && !IsOvercommitAllowed(name):
			errs = append(errs, field.Required(limits, "Limit must be set for non overcommitable resources"))
		case limited && !IsOvercommitAllowed(name) && q.Cmp(limit) != 0:
			errs = append(errs, field.Invalid(requests, q.String(), fmt.Sprintf("must be equal to %s limit of %s", name, limit.String())))
		case limited && q.Cmp(limit) > 0:
			errs = append(errs, field.Invalid(requests, q.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name,
				limit.String())))
		}
	}
	if hasAny(r, isHugePages) && !hasAny(r,
		func(n corev1.ResourceName) bool { return n == corev1.ResourceCPU || n == corev1.ResourceMemory }) {
		errs = append(errs, field.Forbidden(path, "HugePages require cpu or memory"))
	}
	if len(r.Claims) > 0 {
		errs = append(errs, checkClaimNames(r.Claims, claims, path.Child("claims"))...)
	}
	return errs
}

func checkAmount(name corev1.ResourceName, q apiresource.Quantity, list *field.Path, named nameCheck) field.ErrorList {
	at := list.Key(string(name))
	errs := named(name, at)
	errs = append(errs, ValidateQuantity(name, q, at)...)
	if isHugePages(name) {
		errs = append(errs, checkPages(name, q, at)...)
	}
	return errs
}

// checkPages asks for a whole number of huge pages.
func checkPages(name corev1.ResourceName, q apiresource.Quantity, path *field.Path) field.ErrorList {
	size, err := resource.ParseQuantity(strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix))
	if err != nil || size.Value() <= 0 || q.Value()%size.Value() != 0 {
		return field.ErrorList{field.Invalid(path, q.String(), fmt.Sprintf("%s is not positive integer multiple of %s", q.String(), name))}
	}
	return nil
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	names := make([]corev1.ResourceName, 0, len(list))
	for n := range list {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

func hasAny(r *corev1.ResourceRequirements, is func(corev1.ResourceName) bool) bool {
	for _, list := range []corev1.ResourceList{r.Limits, r.Requests} {
		for name := range list {
			if is(name) {
				return true
			}
		}
	}
	return false
}

func checkClaimNames(list []corev1.ResourceClaim, known sets.Set[string], path *field.Path) (errs field.ErrorList) {
	seen, names := sets.New[corev1.ResourceClaim](), ""
	requests := map[string]int{} // by claim
	for i, c := range list {
		at := path.Index(i)
		if c.Name == "" {
			errs = append(errs, field.Required(at, ""))
			continue
		}
		errs = append(errs, checkClaimRepeat(c, seen, requests, at)...)
		if !known.Has(c.Name) {
			e := field.NotFound(at, c.Name)
			switch {
			case len(known) == 0:
				names = " which is empty"
			case names == "":
				names = ": " + strings.Join(some(known), ", ")
			}
			e.Detail = "must be one of the names in pod.spec.resourceClaims" + names
			errs = append(errs, e)
		}
	}
	return errs
}

// maxTold bounds the names that an error lists.
const maxTold = 100

// some are the first of the names, all if they are few.
func some(names sets.Set[string]) []string {
	list := sets.List(names)
	return list[:min(len(list), maxTold)]
}

// checkClaimRepeat refuses a claim of which all, or this request, is there already; the whole of one clashes with each
// of its requests. It notes what it lets pass.
func checkClaimRepeat(c corev1.ResourceClaim, seen sets.Set[corev1.ResourceClaim], requests map[string]int, path *field.Path) (
	errs field.ErrorList,
) {
	if seen.Has(corev1.ResourceClaim{Name: c.Name}) {
		return field.ErrorList{field.Duplicate(path, c.Name)}
	}
	if c.Request != "" {
		errs = rule.Format(c.Request, path.Child("request"), rule.Label)
		if seen.Has(c) {
			errs = append(errs, field.Duplicate(path, c.Name+"/"+c.Request))
		}
	}
	if c.Request == "" {
		for range requests[c.Name] {
			errs = append(errs, field.Duplicate(path, c.Name))
		}
	}
	if !seen.Has(c) {
		requests[c.Name]++
	}
	seen.Insert(c)
	return errs
}

func validatePodResourceName(name corev1.ResourceName, path *field.Path) field.ErrorList {
	errs := ValidateResourceName(name, path)
	if len(errs) == 0 && !podresource.IsSupportedPodLevelResource(name) {
		errs = append(errs, field.NotSupported(path, name, sets.List(podresource.SupportedPodLevelResources())))
	}
	return errs
}

// checkPodResources checks resources given for the pod as a whole against those of its containers.
func (c *checker) checkPodResources(spec *field.Path) field.ErrorList {
	r := c.spec.Resources
	if r == nil {
		return nil
	}
	path := spec.Child("resources")
	switch {
	case c.spec.OS != nil && c.spec.OS.Name == corev1.Windows:
		return field.ErrorList{field.Forbidden(path, "may not be set for a windows pod")}
	}
	var errs field.ErrorList
	if r.Claims != nil {
		errs = append(errs, field.Forbidden(path.Child("claims"), "claims may not be set for Resources at pod-level"))
	}
	errs = append(errs, validateRequirements(r, c.claims, path, validatePodResourceName)...)
	sum := podresource.AggregateContainerRequests(&corev1.Pod{Spec: *c.spec}, podresource.PodResourcesOptions{})
	for _, name := range sortedNames(r.Requests) {
		q := r.Requests[name]
		if need, asked := sum[name]; asked && need.Cmp(q) > 0 {
			errs = append(errs, field.Invalid(path.Child("requests").Key(string(name)), q.String(),
				fmt.Sprintf("must be greater than or equal to aggregate container requests of %s", need.String())))
		}
	}
	limits := podresource.AggregateContainerLimits(&corev1.Pod{Spec: *c.spec}, podresource.PodResourcesOptions{})
	for _, name := range sortedNames(r.Limits) {
		q := r.Limits[name]
		if l, ok := limits[name]; ok && isHugePages(name) && l.Cmp(q) > 0 {
			errs = append(errs, field.Invalid(path.Child("limits").Key(string(name)), q.String(),
				fmt.Sprintf("must be greater than or equal to aggregate container limits of %s", l.String())))
		}
		for i := range c.spec.Containers {
			if l, ok := c.spec.Containers[i].Resources.Limits[name]; ok && l.Cmp(q) > 0 {
				errs = append(errs, field.Invalid(path.Child("containers").Index(i).Key(string(name)).Child("limits"), // so clients know it
					l.String(), fmt.Sprintf("must be less than or equal to pod limits of %s", q.String())))
			}
		}
	}
	return errs
}
