package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
)

func (c *checker) checkContainers(path *field.Path) (errs field.ErrorList) {
	list := c.spec.Containers
	if len(list) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	names := sets.New[string]()
	for i := range list {
		at := path.Index(i)
		errs = append(errs, c.checkContainer(&list[i], at)...)
		errs = append(errs, unique(names, list[i].Name, at.Child("name"))...)
		errs = append(errs, c.checkLife(&list[i], at)...)
		errs = append(errs, checkRestart(&list[i], at)...)
	}
	errs = append(errs, checkHostPorts(list, path)...)
	if c.spec.HostNetwork {
		errs = append(errs, c.checkHostNetworkPorts(path)...)
	}
	return errs
}

// unique refuses a name that was there before.
func unique(seen sets.Set[string], name string, path *field.Path) field.ErrorList {
	if seen.Has(name) {
		return field.ErrorList{field.Duplicate(path, name)}
	}
	seen.Insert(name)
	return nil
}

func (c *checker) checkInitContainers(path *field.Path) (errs field.ErrorList) {
	names := sets.New[string]()
	for _, k := range c.spec.Containers {
		names.Insert(k.Name)
	}
	for i := range c.spec.InitContainers {
		k, at := &c.spec.InitContainers[i], path.Index(i)
		errs = append(errs, c.checkContainer(k, at)...)
		restart := checkRestart(k, at)
		if k.RestartPolicy == nil { // upstream looks at rules of init containers only beside a policy
			restart = restart[:min(len(restart), 1)]
		}
		errs = append(errs, restart...)
		if k.Name != "" || names.Has("") {
			errs = append(errs, unique(names, k.Name, at.Child("name"))...)
		}
		errs = append(errs, checkHostPorts([]corev1.Container{*k}, path)...)
		if Sidecar(k) {
			errs = append(errs, c.checkLife(k, at)...)
			continue
		}
		errs = append(errs, refuseLife(k, at)...)
	}
	return errs
}

// refuseLife refuses what makes no sense for a container that is to end before the next one starts.
func refuseLife(k *corev1.Container, path *field.Path) (errs field.ErrorList) {
	for _, f := range []struct {
		name string
		set  bool
	}{{"lifecycle", k.Lifecycle != nil}, {"livenessProbe", k.LivenessProbe != nil},
		{"readinessProbe", k.ReadinessProbe != nil}, {"startupProbe", k.StartupProbe != nil}} {
		if f.set {
			errs = append(errs, field.Forbidden(path.Child(f.name), "may not be set for init containers without restartPolicy=Always"))
		}
	}
	for i, p := range k.ResizePolicy {
		if p.RestartPolicy == corev1.RestartContainer {
			errs = append(errs, field.Invalid(path.Child("resizePolicy").Index(i).Child("restartPolicy"), p.RestartPolicy,
				"must not be set to 'RestartContainer' for non-sidecar initContainers"))
		}
	}
	return errs
}

// checkRestart checks when a container is to be restarted on its own.
func checkRestart(k *corev1.Container, path *field.Path) (errs field.ErrorList) {
	if k.RestartPolicy == nil && len(k.RestartPolicyRules) == 0 {
		return nil
	}
	at := path.Child("restartPolicy")
	if k.RestartPolicy == nil {
		errs = append(errs, field.Required(at, "must specify restartPolicy when restart rules are used"))
	}
	errs = append(errs, rule.AmongPtr(k.RestartPolicy, at, corev1.ContainerRestartPolicyAlways,
		corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)...)
	at = path.Child("restartPolicyRules")
	if n := len(k.RestartPolicyRules); n > 20 {
		errs = append(errs, field.TooMany(at, n, 20))
	}
	for i, r := range k.RestartPolicyRules {
		errs = append(errs, rule.Among(r.Action, at.Index(i).Child("action"),
			corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers)...)
		exit := at.Index(i).Child("exitCodes")
		if r.ExitCodes == nil {
			errs = append(errs, field.Required(exit, "must be specified"))
			continue
		}
		errs = append(errs, rule.Among(r.ExitCodes.Operator, exit.Child("operator"),
			corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)...)
		if n := len(r.ExitCodes.Values); n > 255 {
			errs = append(errs, field.TooMany(exit.Child("values"), n, 255))
		}
	}
	return errs
}

// checkContainer checks what containers of all sorts have.
func (c *checker) checkContainer(k *corev1.Container, path *field.Path) (errs field.ErrorList) {
	add := func(list field.ErrorList) { errs = append(errs, list...) }
	add(rule.NeededFormat(k.Name, path.Child("name"), rule.Label))
	add(rule.Needed(k.Image, path.Child("image")))
	add(rule.ChosenListed(k.TerminationMessagePolicy, path.Child("terminationMessagePolicy"),
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError))
	add(checkPorts(k.Ports, path.Child("ports")))
	add(checkEnv(k.Env, path.Child("env")))
	if len(k.EnvFrom) > 0 {
		add(checkEnvFrom(k.EnvFrom, path.Child("envFrom")))
	}
	add(c.checkMounts(k, path.Child("volumeMounts")))
	if len(k.VolumeDevices) > 0 {
		add(c.checkDevices(k, path.Child("volumeDevices")))
	}
	add(rule.Chosen(k.ImagePullPolicy, path.Child("imagePullPolicy"), corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever))
	add(validateRequirements(&k.Resources, c.claims, path.Child("resources"), ValidateContainerResourceName))
	if len(k.ResizePolicy) > 0 {
		add(c.checkResizePolicy(k, path.Child("resizePolicy")))
	}
	if k.SecurityContext != nil {
		add(c.checkSecurityContext(k.SecurityContext, path.Child("securityContext")))
	}
	return errs
}

func (c *checker) checkResizePolicy(k *corev1.Container, path *field.Path) (errs field.ErrorList) {
	seen := sets.New[corev1.ResourceName]()
	for i, p := range k.ResizePolicy {
		if seen.Has(p.ResourceName) {
			errs = append(errs, field.Duplicate(path.Index(i), p.ResourceName))
		}
		seen.Insert(p.ResourceName)
		errs = append(errs, rule.Chosen(p.ResourceName, path, corev1.ResourceCPU, corev1.ResourceMemory)...)
		errs = append(errs, rule.Chosen(p.RestartPolicy, path, corev1.NotRequired, corev1.RestartContainer)...)
		if c.spec.RestartPolicy == corev1.RestartPolicyNever && p.RestartPolicy != corev1.NotRequired {
			errs = append(errs, field.Invalid(path, p.RestartPolicy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'"))
		}
	}
	return errs
}

var protocols = []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}

func checkPorts(ports []corev1.ContainerPort, path *field.Path) (errs field.ErrorList) {
	names := sets.New[string]()
	for i, p := range ports {
		at := path.Index(i)
		if p.Name != "" {
			if says := utilvalidation.IsValidPortName(p.Name); len(says) > 0 {
				errs = append(errs, rule.Says(says, p.Name, at.Child("name"))...)
			} else {
				errs = append(errs, unique(names, p.Name, at.Child("name"))...)
			}
		}
		if p.ContainerPort == 0 {
			errs = append(errs, field.Required(at.Child("containerPort"), ""))
		} else {
			errs = append(errs, checkPort(p.ContainerPort, at, "containerPort")...)
		}
		if p.HostPort != 0 {
			errs = append(errs, checkPort(p.HostPort, at, "hostPort")...)
		}
		errs = append(errs, rule.Chosen(p.Protocol, at.Child("protocol"), protocols...)...)
	}
	return errs
}

func checkPort(n int32, path *field.Path, name string) field.ErrorList {
	if says := utilvalidation.IsValidPortNum(int(n)); len(says) > 0 {
		return rule.Says(says, n, path.Child(name))
	}
	return nil
}

// checkHostPorts finds ports of the host that containers would take from each other.
func checkHostPorts(list []corev1.Container, path *field.Path) (errs field.ErrorList) {
	taken := sets.New[string]()
	for i := range list {
		for j, p := range list[i].Ports {
			if p.HostPort != 0 {
				port := fmt.Sprintf("%s/%s/%d", p.Protocol, p.HostIP, p.HostPort)
				errs = append(errs, unique(taken, port, path.Index(i).Child("ports").Index(j).Child("hostPort"))...)
			}
		}
	}
	return errs
}

// checkHostNetworkPorts: on the host's network a host port equals its container port. A template may leave it to the pod.
func (c *checker) checkHostNetworkPorts(path *field.Path) (errs field.ErrorList) {
	for i := range c.spec.Containers {
		for j, p := range c.spec.Containers[i].Ports {
			if (c.meta != nil || p.HostPort != 0) && p.HostPort != p.ContainerPort {
				errs = append(errs, field.Invalid(path.Index(i).Child("ports").Index(j).Child("hostPort"), p.HostPort,
					"must match `containerPort` when `hostNetwork` is true"))
			}
		}
	}
	return errs
}

// validateImages is for pods only: templates in use may have such images.
func validateImages(list []corev1.Container, spec *field.Path, name string) (errs field.ErrorList) {
	for i := range list {
		if image := list[i].Image; spaced(image) {
			errs = append(errs, ValidateImage(image, spec.Child(name).Index(i).Child("image"))...)
		}
	}
	return errs
}

func spaced(image string) bool { return len(image) != len(strings.TrimSpace(image)) }

// ValidateImage refuses spaces around the name of an image.
func ValidateImage(image string, path *field.Path) field.ErrorList {
	if spaced(image) {
		return field.ErrorList{field.Invalid(path, image, "must not have leading or trailing whitespace")}
	}
	return nil
}

// ephemeralFields are the fields that a container may have that is put into a running pod.
var ephemeralFields = []string{"Name", "Image", "Command", "Args", "WorkingDir", "EnvFrom", "Env", "VolumeMounts", "VolumeDevices",
	"TerminationMessagePath", "TerminationMessagePolicy", "ImagePullPolicy", "SecurityContext", "Stdin", "StdinOnce", "TTY"}

func (c *checker) checkEphemeralContainers(path *field.Path) (errs field.ErrorList) {
	others := sets.New[string]()
	for _, list := range [][]corev1.Container{c.spec.Containers, c.spec.InitContainers} {
		for i := range list {
			others.Insert(list[i].Name)
		}
	}
	names := others.Clone()
	for i := range c.spec.EphemeralContainers {
		e, at := &c.spec.EphemeralContainers[i], path.Index(i)
		k := (*corev1.Container)(&e.EphemeralContainerCommon)
		errs = append(errs, c.checkContainer(k, at)...)
		errs = append(errs, ValidateImage(k.Image, at.Child("image"))...)
		errs = append(errs, unique(names, k.Name, at.Child("name"))...)
		if e.TargetContainerName != "" && !others.Has(e.TargetContainerName) {
			errs = append(errs, field.NotFound(at.Child("targetContainerName"), e.TargetContainerName))
		}
		errs = append(errs, refuseFields(e, at)...)
	}
	return errs
}

func refuseFields(e *corev1.EphemeralContainer, path *field.Path) field.ErrorList {
	says := "cannot be set for an Ephemeral Container"
	errs := onlyFields(e.EphemeralContainerCommon, ephemeralFields, path, says)
	for i, m := range e.VolumeMounts {
		at := path.Child("volumeMounts").Index(i)
		if m.SubPath != "" {
			errs = append(errs, field.Forbidden(at.Child("subPath"), says))
		}
		if m.SubPathExpr != "" {
			errs = append(errs, field.Forbidden(at.Child("subPathExpr"), says))
		}
	}
	return errs
}
