package pods

import (
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/kinds/rule"
)

// validatePodStatus checks what node agents report.
func validatePodStatus(on *features.Set, p, old *corev1.Pod) (errs field.ErrorList) {
	add := func(list ...*field.Error) { errs = append(errs, list...) }
	s := &p.Status
	add(podspec.ValidateAnnotationChange(p.Annotations, old.Annotations, &p.Spec, annotationsPath)...)
	add(validatePodConditions(s.Conditions, statusPath.Child("conditions"))...)
	if n, at := s.NominatedNodeName, statusPath.Child("nominatedNodeName"); n != old.Status.NominatedNodeName && n != "" {
		add(rule.Format(n, at, rule.Subdomain)...)
		if old.Spec.NodeName != "" {
			add(field.Forbidden(at, "may not be set on pods that are already bound to a node"))
		}
	}
	add(observed(s.ObservedGeneration, statusPath)...)
	add(validation.ValidateImmutableField(s.QOSClass, old.Status.QOSClass, statusPath.Child("qosClass"))...)
	if !allMayRestart(&p.Spec) {
		add(validateRestarts(s.ContainerStatuses, old.Status.ContainerStatuses, &p.Spec, p.Spec.Containers,
			statusPath.Child("containerStatuses"))...)
		add(validateRestarts(s.InitContainerStatuses, old.Status.InitContainerStatuses, &p.Spec, p.Spec.InitContainers,
			statusPath.Child("initContainerStatuses"))...)
	}
	add(validateRestarts(s.EphemeralContainerStatuses, old.Status.EphemeralContainerStatuses, nil, nil,
		statusPath.Child("ephemeralContainerStatuses"))...)
	add(validateClaimStatuses(s.ResourceClaimStatuses, p.Spec.ResourceClaims, statusPath.Child("resourceClaimStatuses"))...)
	add(validateExtended(s.ExtendedResourceClaimStatus, &p.Spec, statusPath.Child("extendedResourceClaimStatus"))...)
	add(validatePodAddresses(on, s, &old.Status)...)
	add(validateContainerStatuses(on, s.ContainerStatuses, &p.Spec, p.Spec.Containers, statusPath.Child("containerStatuses"))...)
	add(validateContainerStatuses(on, s.InitContainerStatuses, &p.Spec, p.Spec.InitContainers,
		statusPath.Child("initContainerStatuses"))...)
	add(validateContainerStatuses(on, s.EphemeralContainerStatuses, &p.Spec, nil, statusPath.Child("ephemeralContainerStatuses"))...)
	for i, c := range s.EphemeralContainerStatuses {
		if len(c.AllocatedResourcesStatus) > 0 {
			add(field.Forbidden(statusPath.Child("ephemeralContainerStatuses").Index(i).Child("allocatedResourcesStatus"),
				"must not be specified in container status"))
		}
	}
	return errs
}

// validatePodConditions checks what others than the system say of a pod.
func validatePodConditions(list []corev1.PodCondition, path *field.Path) (errs field.ErrorList) {
	for i, c := range list {
		errs = append(errs, observed(c.ObservedGeneration, path.Index(i))...)
		errs = append(errs, rule.Format(string(c.Type), path.Index(i).Child("Type"), utilvalidation.IsQualifiedName)...) // clients know it so
	}
	return errs
}

func observed(generation int64, path *field.Path) field.ErrorList {
	if generation < 0 {
		return field.ErrorList{field.Invalid(path.Child("observedGeneration"), generation, "must be a non-negative integer")}
	}
	return nil
}

// allMayRestart says whether a container may start all others of its pod anew.
func allMayRestart(s *corev1.PodSpec) bool {
	may := func(c corev1.Container) bool {
		return slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool {
			return r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
		})
	}
	return slices.ContainsFunc(s.Containers, may) || slices.ContainsFunc(s.InitContainers, may)
}

// validateRestarts refuses that a container lives again that may not be restarted. Those without a spec never are.
func validateRestarts(now, was []corev1.ContainerStatus, s *corev1.PodSpec, list []corev1.Container,
	path *field.Path) (errs field.ErrorList) {
	for i := range was {
		end := was[i].State.Terminated
		if end == nil || s != nil && mayRestart(s, list, was[i].Name, end.ExitCode) {
			continue
		}
		for _, n := range now {
			if n.Name == was[i].Name && n.State.Terminated == nil {
				errs = append(errs, field.Forbidden(path.Index(i).Child("state"), "may not be transitioned to non-terminated state"))
			}
		}
	}
	return errs
}

// mayRestart says whether a container that ended with a code may live again: by its own rules, else its own policy,
// else its pod's.
func mayRestart(s *corev1.PodSpec, list []corev1.Container, name string, code int32) bool {
	i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == name })
	if i < 0 {
		return false
	}
	return podspec.Restarts(s.RestartPolicy, &list[i], code)
}

// validateClaimStatuses ties each to a claim of the spec; the loop for claims of templates writes there which one it made.
func validateClaimStatuses(list []corev1.PodResourceClaimStatus, claims []corev1.PodResourceClaim,
	path *field.Path) (errs field.ErrorList) {
	seen := sets.New[string]()
	for i, s := range list {
		at := path.Index(i).Child("name")
		if !slices.ContainsFunc(claims, func(c corev1.PodResourceClaim) bool { return c.Name == s.Name }) {
			errs = append(errs, field.Invalid(at, s.Name, "must match the name of an entry in `spec.resourceClaims`"))
		}
		if seen.Has(s.Name) {
			errs = append(errs, field.Duplicate(at, s.Name))
		}
		seen.Insert(s.Name)
		if s.ResourceClaimName != nil {
			errs = append(errs, rule.Format(*s.ResourceClaimName, path.Index(i).Child("resourceClaimName"), rule.Subdomain)...)
		}
	}
	return errs
}

// validatePodAddresses checks the addresses of a pod and of its node.
func validatePodAddresses(on *features.Set, s, old *corev1.PodStatus) field.ErrorList {
	list := func(s *corev1.PodStatus) (ips, hosts []string) {
		for _, ip := range s.PodIPs {
			ips = append(ips, ip.IP)
		}
		for _, ip := range s.HostIPs {
			hosts = append(hosts, ip.IP)
		}
		return ips, hosts
	}
	ips, hosts := list(s)
	oldIPs, oldHosts := list(old)
	at := statusPath.Child("podIPs")
	errs := validateFamilies(ips, oldIPs, at)
	if on.AtLeast(37) && (s.PodIP == "") != (len(ips) == 0) {
		errs = append(errs, field.Invalid(at, s.PodIPs, "podIP and podIPs must either both be set or both be unset"))
	}
	at = statusPath.Child("hostIPs")
	if len(hosts) > 0 && hosts[0] != s.HostIP {
		errs = append(errs, field.Invalid(at.Index(0).Child("ip"), hosts[0], "must be equal to `hostIP`"))
	}
	return append(errs, validateFamilies(hosts, oldHosts, at)...)
}

// validateFamilies checks addresses of which there may be one of each family. Those that were there stay good.
func validateFamilies(ips, old []string, path *field.Path) (errs field.ErrorList) {
	for i, ip := range ips {
		errs = append(errs, utilvalidation.IsValidIPForLegacyField(path.Index(i), ip, true, old)...)
	}
	return append(errs, oneOfEach(netutils.IsDualStackIPStrings, ips, "IP", path)...)
}

// oneOfEach refuses more than one value for a family; what cannot be told apart is an error of its own.
func oneOfEach(both func([]string) (bool, error), list []string, what string, path *field.Path) (errs field.ErrorList) {
	if len(list) < 2 {
		return nil
	}
	ok, err := both(list)
	if err != nil {
		says := "failed to check for dual stack with error:%w"
		if what == "CIDR" {
			says = "invalid PodCIDRs. failed to check with dual stack with error:%w"
		}
		errs = append(errs, field.InternalError(path, fmt.Errorf(says, err)))
	}
	if !ok || len(list) > 2 {
		errs = append(errs, field.Invalid(path, list, "may specify no more than one "+what+" for each IP family"))
	}
	return errs
}

// validateExtended checks the claim that was made for the extended resources of a pod's containers.
func validateExtended(e *corev1.PodExtendedResourceClaimStatus, s *corev1.PodSpec, path *field.Path) (errs field.ErrorList) {
	if e == nil {
		return nil
	}
	maps := path.Child("requestMappings")
	if len(e.RequestMappings) == 0 {
		errs = append(errs, field.Required(maps, "at least one request mapping is required"))
	}
	seen := sets.New[corev1.ContainerExtendedResourceRequest]()
	for i, m := range e.RequestMappings {
		at := maps.Index(i)
		own := func(c corev1.Container) bool { return c.Name == m.ContainerName }
		var c *corev1.Container
		if k := slices.IndexFunc(s.Containers, own); k >= 0 {
			c = &s.Containers[k]
		} else if k := slices.IndexFunc(s.InitContainers, own); k >= 0 {
			c = &s.InitContainers[k]
		}
		if c == nil {
			errs = append(errs, field.Invalid(at.Child("containerName"), m.ContainerName,
				"must match the name of an entry in spec.initContainers.name or spec.containers.name"))
		} else if _, asked := c.Resources.Requests[corev1.ResourceName(m.ResourceName)]; !asked {
			errs = append(errs, field.Invalid(at.Child("resourceName"), m.ResourceName, "must match the extended resource name of an entry in "+
				"spec.initContainers.resources.requests or spec.containers.resources.requests"))
		}
		errs = append(errs, rule.Format(m.RequestName, path.Child("requestName"), rule.Label)...)
		if seen.Has(m) {
			errs = append(errs, field.Duplicate(at.Child("containerName"), m.ContainerName),
				field.Duplicate(at.Child("resourceName"), m.ResourceName), field.Duplicate(at.Child("requestName"), m.RequestName))
		}
		seen.Insert(m)
	}
	return append(errs, rule.NeededFormat(e.ResourceClaimName, path.Child("resourceClaimName"), rule.Subdomain)...)
}

// validateContainerStatuses checks whom containers run as, and the devices that they have.
func validateContainerStatuses(on *features.Set, statuses []corev1.ContainerStatus, s *corev1.PodSpec, list []corev1.Container,
	path *field.Path) (errs field.ErrorList) {
	windows := s.OS != nil && s.OS.Name == corev1.Windows
	for i, c := range statuses {
		at := path.Index(i)
		if c.User != nil && c.User.Linux != nil {
			if windows {
				errs = append(errs, field.Forbidden(at.Child("user", "linux"), "cannot be set for a windows pod"))
			} else {
				errs = append(errs, validateUser(on, c.User.Linux, at.Child("user", "linux"))...)
			}
		}
		at = at.Child("allocatedResourcesStatus")
		own := slices.IndexFunc(list, func(k corev1.Container) bool { return k.Name == c.Name })
		for k, r := range c.AllocatedResourcesStatus {
			if own >= 0 && !asksFor(&list[own].Resources, string(r.Name)) {
				errs = append(errs, field.Invalid(at.Index(k).Child("name"), r.Name, "must match one of the container's resource requests or claims"))
			}
			if list != nil { // ephemeral containers may not have any, and only that is reported
				errs = append(errs, validateDeviceHealth(r.Resources, at.Index(k).Child("resources"))...)
			}
		}
	}
	return errs
}

// validateUser takes every user that Linux knows since 1.37: the runtime says it, not the pod.
func validateUser(on *features.Set, u *corev1.LinuxContainerUser, path *field.Path) (errs field.ErrorList) {
	switch {
	case !on.AtLeast(37):
		errs = rule.Says(utilvalidation.IsValidUserID(u.UID), u.UID, path.Child("uid"))
	case u.UID < 0 || u.UID > math.MaxUint32:
		errs = append(errs, field.Invalid(path.Child("uid"), u.UID, fmt.Sprintf("must be between 0 and %d, inclusive", int64(math.MaxUint32))))
	}
	errs = append(errs, rule.Says(utilvalidation.IsValidGroupID(u.GID), u.GID, path.Child("gid"))...)
	for i, g := range u.SupplementalGroups {
		errs = append(errs, rule.Says(utilvalidation.IsValidGroupID(g), g, path.Child("supplementalGroups").Index(i))...)
	}
	return errs
}

// asksFor says whether a container asks for a resource, or for a claim written as claim:NAME/REQUEST.
func asksFor(r *corev1.ResourceRequirements, name string) bool {
	claim, isClaim := strings.CutPrefix(name, "claim:")
	if !isClaim {
		_, ok := r.Requests[corev1.ResourceName(name)]
		return ok
	}
	return slices.ContainsFunc(r.Claims, func(c corev1.ResourceClaim) bool {
		return claim == c.Name && c.Request == "" || claim == c.Name+"/"+c.Request && c.Request != ""
	})
}

// validateDeviceHealth checks how device plugins and DRA drivers say that devices in use are (KEP-4680).
func validateDeviceHealth(list []corev1.ResourceHealth, path *field.Path) (errs field.ErrorList) {
	seen := sets.New[corev1.ResourceID]()
	for i, d := range list {
		errs = append(errs, rule.Among(d.Health, path.Index(i).Child("health"), corev1.ResourceHealthStatusHealthy,
			corev1.ResourceHealthStatusUnhealthy, corev1.ResourceHealthStatusUnknown)...)
		if at := path.Index(i).Child("message"); d.Message != nil && *d.Message == "" {
			errs = append(errs, field.Required(at, "must be non-empty if specified"))
		} else if d.Message != nil && len(*d.Message) > corev1.ResourceHealthMessageMaxLength {
			errs = append(errs, field.TooLong(at, *d.Message, corev1.ResourceHealthMessageMaxLength))
		}
		if seen.Has(d.ResourceID) {
			errs = append(errs, field.Duplicate(path.Index(i).Child("resourceID"), d.ResourceID))
		}
		seen.Insert(d.ResourceID)
	}
	return errs
}
