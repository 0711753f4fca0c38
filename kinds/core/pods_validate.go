package core

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/kinds/rule"
)

var (
	specPath   = field.NewPath("spec")
	statusPath = field.NewPath("status")
)

func validatePod(p, old *v1.Pod) field.ErrorList {
	errs := podspec.ValidatePod(p)
	if old != nil {
		return append(errs, validatePodUpdate(p, old)...)
	}
	if len(p.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(specPath.Child("ephemeralContainers"), "cannot be set on create"))
	}
	if len(p.Spec.SchedulingGates) > 0 && p.Spec.NodeName != "" {
		errs = append(errs, field.Forbidden(specPath.Child("nodeName"), "cannot be set until all schedulingGates have been cleared"))
	}
	return errs
}

// validatePodStatus checks what node agents report.
func validatePodStatus(p, old *v1.Pod) (errs field.ErrorList) {
	add := func(list ...*field.Error) { errs = append(errs, list...) }
	for i, c := range p.Status.Conditions {
		add(rule.Format(string(c.Type), statusPath.Child("conditions").Index(i).Child("type"), utilvalidation.IsQualifiedName)...)
	}
	if n := p.Status.NominatedNodeName; n != old.Status.NominatedNodeName && n != "" {
		add(rule.Format(n, statusPath.Child("nominatedNodeName"), rule.Subdomain)...)
	}
	add(validation.ValidateImmutableField(p.Status.QOSClass, old.Status.QOSClass, statusPath.Child("qosClass"))...)
	add(validateRestarts(p.Status.ContainerStatuses, old.Status.ContainerStatuses, &p.Spec, statusPath.Child("containerStatuses"))...)
	add(validateRestarts(p.Status.InitContainerStatuses, old.Status.InitContainerStatuses, &p.Spec, statusPath.Child("initContainerStatuses"))...)
	add(validatePodIPs(p.Status.PodIPs)...)
	return errs
}

// validateRestarts refuses that a container lives again that may not be restarted.
func validateRestarts(now, was []v1.ContainerStatus, s *v1.PodSpec, path *field.Path) (errs field.ErrorList) {
	if s.RestartPolicy == v1.RestartPolicyAlways {
		return nil
	}
	for i := range was {
		end := was[i].State.Terminated
		if end == nil || end.ExitCode != 0 && s.RestartPolicy == v1.RestartPolicyOnFailure || mayRestart(s, was[i].Name) {
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

// mayRestart says whether a container has a restart policy of its own that lets it live again.
func mayRestart(s *v1.PodSpec, name string) bool {
	for _, list := range [][]v1.Container{s.Containers, s.InitContainers} {
		for i := range list {
			if list[i].Name == name && list[i].RestartPolicy != nil {
				return true
			}
		}
	}
	return false
}

func validatePodIPs(ips []v1.PodIP) (errs field.ErrorList) {
	path := statusPath.Child("podIPs")
	var seen []string
	families := map[bool]bool{}
	for i, ip := range ips {
		errs = append(errs, utilvalidation.IsValidIPForLegacyField(path.Index(i), ip.IP, true, nil)...)
		if slices.Contains(seen, ip.IP) {
			errs = append(errs, field.Duplicate(path.Index(i), ip))
		}
		seen = append(seen, ip.IP)
		families[isIPv6(ip.IP)] = true
	}
	if len(ips) > 2 || len(ips) == 2 && len(families) != 2 {
		errs = append(errs, field.Invalid(path, ips, "may specify no more than one IP for each IP family"))
	}
	return errs
}

func validateEphemeralContainers(p, old *v1.Pod) field.ErrorList {
	errs := podspec.ValidatePod(p)
	path := specPath.Child("ephemeralContainers")
	if _, static := old.Annotations[v1.MirrorPodAnnotationKey]; static {
		return append(errs, field.Forbidden(field.NewPath(""), "static pods do not support ephemeral containers"))
	}
	now := map[string]*v1.EphemeralContainer{}
	for i := range p.Spec.EphemeralContainers {
		now[p.Spec.EphemeralContainers[i].Name] = &p.Spec.EphemeralContainers[i]
	}
	for i := range old.Spec.EphemeralContainers {
		was := &old.Spec.EphemeralContainers[i]
		switch is := now[was.Name]; {
		case is == nil:
			errs = append(errs, field.Forbidden(path, "existing ephemeral containers \""+was.Name+"\" may not be removed"))
		case !rule.Same(is, was):
			errs = append(errs, field.Forbidden(path, "existing ephemeral containers \""+was.Name+"\" may not be changed"))
		}
	}
	return errs
}
