package podspec

import (
	"fmt"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
)

// onlyImage says whether a volume has an image as its only source. Nothing is said of a second one but that it is one too many.
func onlyImage(s corev1.VolumeSource) bool {
	s.Image = nil
	return s == corev1.VolumeSource{}
}

// hasNamelessImage says whether a volume of s is that of an image without saying which.
func hasNamelessImage(s *corev1.PodSpec) bool {
	return slices.ContainsFunc(s.Volumes, func(v corev1.Volume) bool { return v.Image != nil && v.Image.Reference == "" })
}

// checkVolumes checks the volumes and remembers those that are good: others can't be mounted.
func (c *checker) checkVolumes(path *field.Path) (errs field.ErrorList) {
	c.volumes = make(map[string]*corev1.VolumeSource, len(c.spec.Volumes))
	made := c.claimsMade()
	for i := range c.spec.Volumes {
		v, at := &c.spec.Volumes[i], path.Index(i)
		var bad field.ErrorList
		if !c.nameless && v.Image != nil && onlyImage(v.VolumeSource) {
			bad = rule.Needed(v.Image.Reference, at.Child("image", "reference"))
		}
		bad = append(bad, OneSource(&v.VolumeSource, podSources, at, checkVolumeSource)...)
		bad = append(bad, c.checkVolumeName(v, at.Child("name"))...)
		if c.volumes[v.Name] != nil {
			bad = append(bad, field.Duplicate(at.Child("name"), v.Name))
		}
		if len(bad) == 0 {
			c.volumes[v.Name] = &v.VolumeSource
		}
		errs = append(errs, bad...)
		if p := v.PersistentVolumeClaim; p != nil && made.Has(p.ClaimName) {
			errs = append(errs, field.Invalid(at.Child("persistentVolumeClaim", "claimName"), p.ClaimName,
				"must not reference a PVC that gets created for an ephemeral volume"))
		}
	}
	return errs
}

// longestInitiator is the maximum length of the names of a volume and its portal together when it names its initiator.
const longestInitiator = 64

// checkVolumeName checks the name for itself and for what is made of it.
func (c *checker) checkVolumeName(v *corev1.Volume, path *field.Path) field.ErrorList {
	errs := rule.NeededFormat(v.Name, path, rule.Label)
	if s := v.ISCSI; s != nil && s.InitiatorName != nil && len(v.Name+":"+s.TargetPortal) > longestInitiator {
		errs = append(errs, field.Invalid(path, v.Name,
			"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified."))
	}
	if v.Ephemeral != nil && v.Name != "" && c.meta != nil && c.meta.Name != "" {
		claim := c.meta.Name + "-" + v.Name
		for _, says := range rule.Subdomain(claim) {
			errs = append(errs, field.Invalid(path, v.Name, fmt.Sprintf("PVC name %q: %v", claim, says)))
		}
	}
	return errs
}

// claimsMade are the names of claims that are made for ephemeral volumes of the pod.
func (c *checker) claimsMade() sets.Set[string] {
	names := sets.New[string]()
	for i := range c.spec.Volumes {
		if v := &c.spec.Volumes[i]; v.Ephemeral != nil && c.meta != nil && c.meta.Name != "" {
			names.Insert(c.meta.Name + "-" + v.Name)
		}
	}
	return names
}

func checkVolumeSource(s any, path *field.Path) (errs field.ErrorList) {
	switch s := s.(type) {
	case *corev1.EmptyDirVolumeSource:
		if s.SizeLimit != nil && s.SizeLimit.Sign() < 0 {
			errs = append(errs, field.Forbidden(path.Child("sizeLimit"), "SizeLimit field must be a valid resource quantity"))
		}
		return errs
	case *corev1.SecretVolumeSource:
		errs = rule.Needed(s.SecretName, path.Child("secretName"))
		errs = append(errs, checkMode(s.DefaultMode, path, "defaultMode")...)
		return append(errs, checkItems(s.Items, path.Child("items"))...)
	case *corev1.ConfigMapVolumeSource:
		errs = rule.Needed(s.Name, path.Child("name"))
		errs = append(errs, checkMode(s.DefaultMode, path, "defaultMode")...)
		return append(errs, checkItems(s.Items, path.Child("items"))...)
	case *corev1.DownwardAPIVolumeSource:
		errs = checkMode(s.DefaultMode, path, "defaultMode")
		return append(errs, checkFiles(s.Items, path)...)
	case *corev1.ProjectedVolumeSource:
		errs = checkMode(s.DefaultMode, path, "defaultMode")
		return append(errs, checkProjected(s.Sources, path)...)
	case *corev1.EphemeralVolumeSource:
		if s.VolumeClaimTemplate == nil {
			return field.ErrorList{field.Required(path.Child("volumeClaimTemplate"), "")}
		}
		return checkClaimTemplate(s.VolumeClaimTemplate, path.Child("volumeClaimTemplate"))
	case *corev1.ImageVolumeSource:
		return rule.Chosen(s.PullPolicy, path.Child("pullPolicy"), corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	case *corev1.CSIVolumeSource:
		errs = ValidateDriverName(s.Driver, path.Child("driver"))
		if r := s.NodePublishSecretRef; r != nil && r.Name != "" {
			return append(errs, rule.Format(r.Name, path.Child("name"), rule.Subdomain)...)
		}
		return append(errs, checkRefName(s.NodePublishSecretRef, path.Child("nodePublishSecretRef"))...)
	case *corev1.GitRepoVolumeSource:
		errs = rule.Needed(s.Repository, path.Child("repository"))
		return append(errs, checkInnerPath(s.Directory, path.Child("directory"))...)
	case *corev1.PersistentVolumeClaimVolumeSource:
		return rule.Needed(s.ClaimName, path.Child("claimName"))
	}
	return ValidateRemote(s, path)
}

// checkClaimTemplate checks what a claim is made of for each pod. Of its metadata only this much is taken over.
func checkClaimTemplate(t *corev1.PersistentVolumeClaimTemplate, path *field.Path) field.ErrorList {
	meta := path.Child("metadata")
	errs := validation.ValidateAnnotations(t.Annotations, meta.Child("annotations"))
	errs = append(errs, metavalidation.ValidateLabels(t.Labels, meta.Child("labels"))...)
	errs = append(errs, onlyFields(t.ObjectMeta, []string{"Annotations", "Labels"}, meta, "cannot be set")...)
	return append(errs, ValidateClaimSpec(&t.Spec, path.Child("spec"))...)
}

func checkRefName(r *corev1.LocalObjectReference, path *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	return rule.Needed(r.Name, path.Child("name"))
}

func checkMode(mode *int32, path *field.Path, name string) field.ErrorList {
	if mode != nil && (*mode > 0o777 || *mode < 0) {
		return field.ErrorList{field.Invalid(path.Child(name), *mode, "must be a number between 0 and 0777 (octal), both inclusive")}
	}
	return nil
}

func checkItems(items []corev1.KeyToPath, path *field.Path) (errs field.ErrorList) {
	for i, it := range items {
		at := path.Index(i)
		errs = append(errs, rule.Needed(it.Key, at.Child("key"))...)
		errs = append(errs, rule.Needed(it.Path, at.Child("path"))...)
		errs = append(errs, checkVisiblePath(it.Path, at, "path")...)
		errs = append(errs, checkMode(it.Mode, at, "mode")...)
	}
	return errs
}

// checkFiles checks files about the pod; their errors lack the index, clients know them so.
func checkFiles(items []corev1.DownwardAPIVolumeFile, path *field.Path) (errs field.ErrorList) {
	for i := range items {
		it := &items[i]
		errs = append(errs, rule.Needed(it.Path, path.Child("path"))...)
		errs = append(errs, checkVisiblePath(it.Path, path, "path")...)
		switch {
		case it.FieldRef != nil:
			errs = append(errs, checkFieldRef(it.FieldRef, fileFields, path.Child("fieldRef"))...)
			if it.ResourceFieldRef != nil {
				errs = append(errs, field.Invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"))
			}
		case it.ResourceFieldRef != nil:
			errs = append(errs, checkAmountRef(it.ResourceFieldRef, true, path.Child("resourceFieldRef"))...)
		default:
			errs = append(errs, field.Required(path, "one of fieldRef and resourceFieldRef is required"))
		}
		errs = append(errs, checkMode(it.Mode, path, "mode")...)
	}
	return errs
}

func checkHostPath(s *corev1.HostPathVolumeSource, path *field.Path) field.ErrorList {
	if s.Path == "" {
		return field.ErrorList{field.Required(path.Child("path"), "")}
	}
	errs := checkBacksteps(s.Path, path.Child("path"))
	return append(errs, rule.AmongPtr(s.Type, path.Child("type"), corev1.HostPathUnset, corev1.HostPathDirectoryOrCreate,
		corev1.HostPathDirectory,
		corev1.HostPathFileOrCreate, corev1.HostPathFile, corev1.HostPathSocket, corev1.HostPathCharDev, corev1.HostPathBlockDev)...)
}

func checkNFS(s *corev1.NFSVolumeSource, at *field.Path) field.ErrorList {
	errs := rule.Needed(s.Server, at.Child("server"))
	errs = append(errs, rule.Needed(s.Path, at.Child("path"))...)
	if !path.IsAbs(s.Path) {
		errs = append(errs, field.Invalid(at.Child("path"), s.Path, "must be an absolute path"))
	}
	return errs
}
