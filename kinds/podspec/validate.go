package podspec

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/rule"
)

// A checker knows of the pod what the checks of its parts need.
type checker struct {
	on      *features.Set
	spec    *corev1.PodSpec
	meta    *metav1.ObjectMeta // nil in a template
	volumes map[string]*corev1.VolumeSource
	claims  sets.Set[string] // names in spec.resourceClaims

	nameless  bool // volumes of images need not say which
	recursive bool // volumes are labelled file by file, in no other way
}

// ValidatePod checks what a pod, stored as old before or new, says of itself outside of status, except the generic part of metadata.
func ValidatePod(on *features.Set, p, old *corev1.Pod) field.ErrorList {
	c := &checker{on: on, spec: &p.Spec, meta: &p.ObjectMeta, recursive: !on.AtLeast(37) && (old == nil || !relabels(&old.Spec))}
	path := field.NewPath("spec")
	var errs field.ErrorList
	if len(p.Annotations) > 0 {
		errs = ValidateAnnotations(p.Annotations, &p.Spec, field.NewPath("metadata", "annotations"))
	}
	errs = append(errs, c.check(path)...)
	if p.Spec.ServiceAccountName == "" {
		errs = append(errs, refuseTokens(p.Spec.Volumes, path.Child("volumes"))...)
	}
	errs = append(errs, validateImages(p.Spec.Containers, path, "containers")...)
	return append(errs, validateImages(p.Spec.InitContainers, path, "initContainers")...)
}

// ValidateTemplate checks a pod template; old is the stored one, or nil. Up to 1.36 a template may leave it
// to others to name the images of its volumes.
func ValidateTemplate(on *features.Set, t, old *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	errs := metavalidation.ValidateLabels(t.Labels, path.Child("labels"))
	errs = append(errs, validation.ValidateAnnotations(t.Annotations, path.Child("annotations"))...)
	errs = append(errs, ValidateAnnotations(t.Annotations, &t.Spec, path.Child("annotations"))...)
	c := &checker{on: on, spec: &t.Spec, nameless: !on.AtLeast(37) || old != nil && hasNamelessImage(&old.Spec),
		recursive: !on.AtLeast(37) && (old == nil || !relabels(&old.Spec))}
	errs = append(errs, c.check(path.Child("spec"))...)
	errs = append(errs, AnnotationsAgree(t.Annotations, &t.Spec, path.Child("spec"))...)
	if len(t.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(path.Child("spec", "ephemeralContainers"), "ephemeral containers not allowed in pod template"))
	}
	return errs
}

// annotation returns an annotation of the pod; those of templates mean nothing yet.
func (c *checker) annotation(key string) (v string, ok bool) {
	if c.meta != nil {
		v, ok = c.meta.Annotations[key]
	}
	return v, ok
}

func (c *checker) check(path *field.Path) (errs field.ErrorList) {
	s := c.spec
	add := func(list field.ErrorList) { errs = append(errs, list...) }
	some := func(n int, name string, check func(*field.Path) field.ErrorList) {
		if n > 0 { // else even the path would cost something
			add(check(path.Child(name)))
		}
	}
	some(len(s.Volumes), "volumes", c.checkVolumes)
	some(len(s.ResourceClaims), "resourceClaims", c.checkClaims)
	add(c.checkContainers(path.Child("containers")))
	some(len(s.InitContainers), "initContainers", c.checkInitContainers)
	some(len(s.EphemeralContainers), "ephemeralContainers", c.checkEphemeralContainers)
	add(c.checkPodResources(path))
	add(rule.ChosenListed(s.RestartPolicy, path.Child("restartPolicy"), corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure,
		corev1.RestartPolicyNever))
	add(rule.ChosenListed(s.DNSPolicy, path.Child("dnsPolicy"), corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault,
		corev1.DNSNone))
	if len(s.NodeSelector) > 0 {
		add(metavalidation.ValidateLabels(s.NodeSelector, path.Child("nodeSelector")))
	}
	add(c.checkSecurity(path))
	if s.Affinity != nil {
		add(checkAffinity(s.Affinity, path.Child("affinity")))
	}
	add(checkDNS(s, path.Child("dnsConfig")))
	add(checkGates(s, path))
	if len(s.TopologySpreadConstraints) > 0 {
		add(checkSpread(s.TopologySpreadConstraints, path.Child("topologySpreadConstraints")))
	}
	add(checkHostProcess(s, path))
	add(checkHostUsers(s, path))
	if s.HostnameOverride != nil {
		add(checkHostnameOverride(s, path))
	}
	add(checkNames(s, path))
	if s.Overhead != nil {
		add(ValidateOverhead(s.Overhead, path.Child("overhead")))
	}
	add(c.checkOS(path))
	return append(errs, checkFileVolumes(s, path)...)
}

// checkNames checks the fields that are a name, or a single value.
func checkNames(s *corev1.PodSpec, path *field.Path) (errs field.ErrorList) {
	add := func(list field.ErrorList) { errs = append(errs, list...) }
	optional := func(v, name string, check func(string) []string) {
		if v != "" {
			add(rule.Format(v, path.Child(name), check))
		}
	}
	optional(s.ServiceAccountName, "serviceAccountName", rule.Subdomain)
	optional(s.NodeName, "nodeName", rule.Subdomain)
	if d := s.ActiveDeadlineSeconds; d != nil {
		add(rule.Within(*d, 1, math.MaxInt32, path.Child("activeDeadlineSeconds")))
	}
	optional(s.Hostname, "hostname", rule.Label)
	optional(s.Subdomain, "subdomain", rule.Label)
	add(ValidateTolerations(s.Tolerations, path.Child("tolerations")))
	add(checkHostAliases(s.HostAliases, path))
	optional(s.PriorityClassName, "priorityClassName", rule.Subdomain)
	if s.RuntimeClassName != nil {
		add(rule.Format(*s.RuntimeClassName, path.Child("runtimeClassName"), rule.Subdomain))
	}
	if p := s.PreemptionPolicy; p != nil {
		add(rule.ChosenListed(*p, path.Child("preemptionPolicy"), corev1.PreemptLowerPriority, corev1.PreemptNever))
	}
	return errs
}

func checkHostnameOverride(s *corev1.PodSpec, path *field.Path) (errs field.ErrorList) {
	at := path.Child("hostnameOverride")
	if s.SetHostnameAsFQDN != nil && *s.SetHostnameAsFQDN {
		errs = append(errs, field.Forbidden(at, "may not be specified when setHostnameAsFQDN is true"))
	}
	if s.HostNetwork {
		errs = append(errs, field.Forbidden(at, "may not be specified when hostNetwork is true"))
	}
	if len(*s.HostnameOverride) > 64 {
		errs = append(errs, field.TooLong(at, *s.HostnameOverride, 64))
	}
	return append(errs, rule.Format(*s.HostnameOverride, at, rule.Subdomain)...)
}

func checkHostAliases(list []corev1.HostAlias, path *field.Path) (errs field.ErrorList) {
	for i, a := range list {
		path := path.Child("hostAliases")
		errs = append(errs, utilvalidation.IsValidIPForLegacyField(path.Index(i).Child("ip"), a.IP, true, nil)...)
		for j, name := range a.Hostnames {
			errs = append(errs, rule.Format(name, path.Index(i).Child("hostnames").Index(j), rule.Subdomain)...)
		}
	}
	return errs
}

func checkGates(s *corev1.PodSpec, path *field.Path) (errs field.ErrorList) {
	for i, g := range s.ReadinessGates {
		at := path.Child("readinessGates").Index(i).Child("conditionType")
		errs = append(errs, rule.Format(string(g.ConditionType), at, utilvalidation.IsQualifiedName)...)
	}
	if len(s.SchedulingGates) == 0 {
		return errs
	}
	seen, path := sets.New[string](), path.Child("schedulingGates")
	for i, g := range s.SchedulingGates {
		errs = append(errs, rule.Format(g.Name, path.Index(i), utilvalidation.IsQualifiedName)...)
		if seen.Has(g.Name) {
			errs = append(errs, field.Duplicate(path.Index(i), g.Name))
		}
		seen.Insert(g.Name)
	}
	return errs
}

// checkClaims checks the claims for devices.
func (c *checker) checkClaims(path *field.Path) (errs field.ErrorList) {
	c.claims = sets.New[string]()
	for _, r := range c.spec.ResourceClaims {
		if r.Name != "" {
			c.claims.Insert(r.Name)
		}
	}
	_, static := c.annotation(corev1.MirrorPodAnnotationKey)
	names := sets.New[string]()
	for i, r := range c.spec.ResourceClaims {
		at := path.Index(i)
		if static {
			errs = append(errs, field.Forbidden(field.NewPath(""), "static pods do not support resource claims"))
			continue
		}
		switch {
		case r.Name == "":
			errs = append(errs, field.Required(at.Child("name"), ""))
		case names.Has(r.Name):
			errs = append(errs, field.Duplicate(at.Child("name"), r.Name))
		default:
			errs = append(errs, rule.Format(r.Name, at.Child("name"), rule.Label)...)
			names.Insert(r.Name)
		}
		switch one, other := r.ResourceClaimName != nil, r.ResourceClaimTemplateName != nil; {
		case one && other:
			errs = append(errs, field.Invalid(at, rule.Internal(r),
				"at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"))
		case !one && !other:
			errs = append(errs, field.Invalid(at, rule.Internal(r), "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"))
		}
		if r.ResourceClaimName != nil {
			errs = append(errs, rule.Format(*r.ResourceClaimName, at.Child("resourceClaimName"), rule.Subdomain)...)
		}
		if r.ResourceClaimTemplateName != nil {
			errs = append(errs, rule.Format(*r.ResourceClaimTemplateName, at.Child("resourceClaimTemplateName"), rule.Subdomain)...)
		}
	}
	return errs
}

// refuseTokens refuses tokens of a service account that the pod does not have.
func refuseTokens(volumes []corev1.Volume, path *field.Path) (errs field.ErrorList) {
	for i, v := range volumes {
		if v.Projected == nil {
			continue
		}
		for j, s := range v.Projected.Sources {
			if s.ServiceAccountToken != nil {
				errs = append(errs, field.Forbidden(path.Index(i).Child("projected", "sources").Index(j).Child("serviceAccountToken"),
					"must not be specified when serviceAccountName is not set"))
			}
		}
	}
	return errs
}
