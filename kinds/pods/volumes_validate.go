package pods

import (
	"maps"
	pathpkg "path"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// validateVolume tells of a change twice what is wrong with the whole, as upstream.
func validateVolume(v, old *corev1.PersistentVolume) field.ErrorList {
	errs := validateNewVolume(v)
	if old == nil {
		return errs
	}
	return slices.Concat(errs, errs, validateVolumeUpdate(&v.Spec, &old.Spec))
}

func validateNewVolume(v *corev1.PersistentVolume) field.ErrorList {
	return ValidateVolumeSpec(&v.Spec, v.Name, false, specPath)
}

// ValidateVolumeSpec checks what a volume is. An inline one stands in a pod: it was translated to CSI, and nobody claims it.
func ValidateVolumeSpec(s *corev1.PersistentVolumeSpec, name string, inline bool, path *field.Path) (errs field.ErrorList) {
	add := func(list ...*field.Error) { errs = append(errs, list...) }
	if inline {
		add(notInline(path, inlineField{"claimRef", s.ClaimRef != nil}, inlineField{"capacity", len(s.Capacity) > 0})...)
		if s.CSI == nil {
			add(field.Required(path.Child("csi"), "has to be specified in the context of inline volumes"))
		}
	}
	add(podspec.ValidateAccessModes(s.AccessModes, "", path.Child("accessModes"))...)
	if !inline {
		add(validateCapacity(s.Capacity, path.Child("capacity"))...)
	}
	add(validateReclaim(s.PersistentVolumeReclaimPolicy, inline, path.Child("persistentVolumeReclaimPolicy"))...)
	add(validateVolumeAffinity(s, path.Child("nodeAffinity"))...)
	if inline {
		add(notInline(path, inlineField{"nodeAffinity", s.NodeAffinity != nil})...)
	}
	add(podspec.OneSource(&s.PersistentVolumeSource, volumeSources, path, validateOwnSource)...)
	if s.NodeAffinity == nil && s.Local != nil && firstSource(s) == "Local" {
		add(field.Required(path.Child("nodeAffinity"), "Local volume requires node affinity"))
	}
	if s := s.ISCSI; s != nil && s.InitiatorName != nil && len(name+":"+s.TargetPortal) > 64 {
		add(field.Invalid(path.Child("iscsi", "targetportal"), s.TargetPortal, // clients know it so
			"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified."))
	}
	if s.HostPath != nil && pathpkg.Clean(s.HostPath.Path) == "/" && s.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		add(field.Forbidden(path.Child("persistentVolumeReclaimPolicy"), "may not be 'recycle' for a hostPath mount of '/'"))
	}
	if inline {
		add(notInline(path, inlineField{"storageClassName", s.StorageClassName != ""})...)
	} else if s.StorageClassName != "" {
		add(rule.Format(s.StorageClassName, path.Child("storageClassName"), rule.Subdomain)...)
	}
	return append(errs, validateVolumeRest(s, inline, path)...)
}

// validateVolumeRest checks the mode and the class of attributes of a volume.
func validateVolumeRest(s *corev1.PersistentVolumeSpec, inline bool, path *field.Path) (errs field.ErrorList) {
	switch at := path.Child("volumeMode"); {
	case inline && s.VolumeMode != nil && *s.VolumeMode != corev1.PersistentVolumeFilesystem:
		errs = append(errs, field.Forbidden(at, "may not specify volumeMode other than Filesystem in the context of inline volumes"))
	case !inline:
		errs = append(errs, rule.AmongPtr(s.VolumeMode, at, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)...)
	}
	if c, at := s.VolumeAttributesClassName, path.Child("volumeAttributesClassName"); c != nil {
		if *c == "" {
			errs = append(errs, field.Required(at, "an empty string is disallowed"))
		} else {
			errs = append(errs, rule.Format(*c, at, rule.Subdomain)...)
		}
		if s.CSI == nil {
			errs = append(errs, field.Required(path.Child("csi"), "has to be specified when using volumeAttributesClassName"))
		}
	}
	return errs
}

// An inlineField is one that a volume in a pod can't have.
type inlineField struct {
	name string
	set  bool
}

func notInline(path *field.Path, fields ...inlineField) (errs field.ErrorList) {
	for _, f := range fields {
		if f.set {
			errs = append(errs, field.Forbidden(path.Child(f.name), "may not be specified in the context of inline volumes"))
		}
	}
	return errs
}

func validateReclaim(p corev1.PersistentVolumeReclaimPolicy, inline bool, at *field.Path) field.ErrorList {
	switch {
	case !inline:
		return rule.Chosen(p, at, corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle,
			corev1.PersistentVolumeReclaimRetain)
	case p != "" && p != corev1.PersistentVolumeReclaimRetain:
		return field.ErrorList{field.Forbidden(at, "may only be Retain in the context of inline volumes")}
	}
	return nil
}

func validateVolumeAffinity(s *corev1.PersistentVolumeSpec, at *field.Path) field.ErrorList {
	switch a := s.NodeAffinity; {
	case a != nil && a.Required == nil:
		return field.ErrorList{field.Required(at.Child("required"), "must specify required node constraints")}
	case a != nil:
		return podspec.ValidateNodeSelector(a.Required, at.Child("required"))
	}
	return nil
}

func validateCapacity(list corev1.ResourceList, path *field.Path) (errs field.ErrorList) {
	if len(list) == 0 {
		errs = append(errs, field.Required(path, ""))
	}
	if _, ok := list[corev1.ResourceStorage]; !ok || len(list) > 1 {
		errs = append(errs, field.NotSupported(path, list, []corev1.ResourceName{corev1.ResourceStorage}))
	}
	for _, n := range slices.Sorted(maps.Keys(list)) {
		errs = append(errs, podspec.ValidateAmount(list[n], path.Key(string(n)))...)
		errs = append(errs, podspec.ValidateStorage(list[n], path.Key(string(n)))...)
	}
	return errs
}

// volumeSources are the types of persistent volumes, in the form of those of pods.
var volumeSources = []podspec.Source{{Field: "HostPath"}, {Field: "GCEPersistentDisk", Inside: "persistentDisk"},
	{Field: "AWSElasticBlockStore"},
	{Field: "Glusterfs"}, {Field: "Flocker"}, {Field: "NFS"}, {Field: "RBD"}, {Field: "Quobyte"}, {Field: "CephFS", Extra: "cephFS"},
	{Field: "ISCSI"}, {Field: "Cinder"}, {Field: "FC"}, {Field: "FlexVolume", Beside: true}, {Field: "AzureFile"}, {Field: "VsphereVolume"},
	{Field: "PhotonPersistentDisk"}, {Field: "PortworxVolume"}, {Field: "AzureDisk"}, {Field: "ScaleIO"}, {Field: "Local"},
	{Field: "StorageOS"}, {Field: "CSI"}}

// firstSource names the field of the source that counts, if more than one is set.
func firstSource(s *corev1.PersistentVolumeSpec) string {
	value := reflect.ValueOf(s.PersistentVolumeSource)
	at := slices.IndexFunc(volumeSources, func(s podspec.Source) bool { return !value.FieldByName(s.Field).IsNil() })
	if at < 0 {
		return ""
	}
	return volumeSources[at].Field
}

// validateOwnSource checks the sources that differ from those of pods; these need little.
func validateOwnSource(s any, path *field.Path) field.ErrorList {
	switch s := s.(type) {
	case *corev1.LocalVolumeSource:
		return podspec.ValidateRemote(&corev1.HostPathVolumeSource{Path: s.Path}, path)
	case *corev1.CSIPersistentVolumeSource:
		return validateDriver(s, path)
	case *corev1.ISCSIPersistentVolumeSource:
		like := &corev1.ISCSIVolumeSource{TargetPortal: s.TargetPortal, IQN: s.IQN, Lun: s.Lun, InitiatorName: s.InitiatorName,
			DiscoveryCHAPAuth: s.DiscoveryCHAPAuth, SessionCHAPAuth: s.SessionCHAPAuth}
		if s.SecretRef == nil {
			return lessOfNames(podspec.ValidateRemote(like, path))
		}
		like.SecretRef = &corev1.LocalObjectReference{Name: s.SecretRef.Name}
		return append(lessOfNames(podspec.ValidateRemote(like, path)), rule.Needed(s.SecretRef.Name, path.Child("secretRef", "name"))...)
	case *corev1.GlusterfsPersistentVolumeSource:
		errs := podspec.ValidateRemote(&corev1.GlusterfsVolumeSource{EndpointsName: s.EndpointsName, Path: s.Path}, path)
		switch n := s.EndpointsNamespace; {
		case n == nil:
		case *n == "":
			errs = append(errs, field.Invalid(path.Child("endpointsNamespace"), "",
				"if the endpointnamespace is set, it must be a valid namespace name"))
		default:
			errs = append(errs, rule.Format(*n, path.Child("endpointsNamespace"), rule.Label)...)
		}
		return errs
	case *corev1.RBDPersistentVolumeSource:
		return podspec.ValidateRemote(&corev1.RBDVolumeSource{CephMonitors: s.CephMonitors, RBDImage: s.RBDImage}, path)
	case *corev1.CephFSPersistentVolumeSource:
		return podspec.ValidateRemote(&corev1.CephFSVolumeSource{Monitors: s.Monitors}, path)
	case *corev1.CinderPersistentVolumeSource:
		errs := podspec.ValidateRemote(&corev1.CinderVolumeSource{VolumeID: s.VolumeID}, path)
		if r := s.SecretRef; r != nil {
			errs = append(errs, needSecret(r.Name, r.Namespace, path.Child("secretRef"))...)
		}
		return errs
	case *corev1.FlexPersistentVolumeSource:
		return podspec.ValidateRemote(&corev1.FlexVolumeSource{Driver: s.Driver, Options: s.Options}, path)
	case *corev1.AzureFilePersistentVolumeSource:
		errs := podspec.ValidateRemote(&corev1.AzureFileVolumeSource{SecretName: s.SecretName, ShareName: s.ShareName}, path)
		if n := s.SecretNamespace; n != nil {
			errs = append(errs, rule.Needed(*n, path.Child("secretNamespace"))...)
		}
		return errs
	case *corev1.ScaleIOPersistentVolumeSource:
		return podspec.ValidateRemote(&corev1.ScaleIOVolumeSource{Gateway: s.Gateway, System: s.System, VolumeName: s.VolumeName}, path)
	case *corev1.StorageOSPersistentVolumeSource:
		errs := podspec.ValidateRemote(&corev1.StorageOSVolumeSource{VolumeName: s.VolumeName, VolumeNamespace: s.VolumeNamespace}, path)
		if r := s.SecretRef; r != nil {
			errs = append(errs, needSecret(r.Name, r.Namespace, path.Child("secretRef"))...)
		}
		return errs
	}
	return podspec.ValidateRemote(s, path)
}

// needSecret asks for both parts of a reference to a secret.
func needSecret(name, namespace string, path *field.Path) field.ErrorList {
	return append(rule.Needed(name, path.Child("name")), rule.Needed(namespace, path.Child("namespace"))...)
}

func validateDriver(s *corev1.CSIPersistentVolumeSource, path *field.Path) field.ErrorList {
	errs := podspec.ValidateDriverName(s.Driver, path.Child("driver"))
	errs = append(errs, rule.Needed(s.VolumeHandle, path.Child("volumeHandle"))...)
	for _, r := range []struct {
		name string
		ref  *corev1.SecretReference
	}{{"controllerPublishSecretRef", s.ControllerPublishSecretRef}, {"controllerExpandSecretRef", s.ControllerExpandSecretRef},
		{"nodePublishSecretRef", s.NodePublishSecretRef}, {"nodeExpandSecretRef", s.NodeExpandSecretRef}} {
		if r.ref != nil {
			errs = append(errs, rule.NeededFormat(r.ref.Name, path.Child(r.name, "name"), rule.Subdomain)...)
			errs = append(errs, rule.NeededFormat(r.ref.Namespace, path.Child(r.name, "namespace"), rule.Label)...)
		}
	}
	return errs
}

// lessOfNames tells of a bad name of a target what upstream tells of volumes: less than of pods.
func lessOfNames(errs field.ErrorList) field.ErrorList {
	for _, e := range errs {
		e.Detail = strings.TrimSuffix(e.Detail, " starting with iqn, eui, or naa")
	}
	return errs
}

func validateVolumeUpdate(s, old *corev1.PersistentVolumeSpec) (errs field.ErrorList) {
	is, was := s.PersistentVolumeSource, old.PersistentVolumeSource
	if is.CSI != nil && was.CSI != nil && was.CSI.ControllerExpandSecretRef == nil {
		is.CSI = is.CSI.DeepCopy() // may be added to a volume that was made before expansion was known
		is.CSI.ControllerExpandSecretRef = nil
	}
	if !resource.Same(is, was) {
		errs = append(errs, field.Forbidden(specPath.Child("persistentvolumesource"), "spec.persistentvolumesource is immutable after creation"))
	}
	errs = append(errs, validation.ValidateImmutableField(s.VolumeMode, old.VolumeMode, modePath)...)
	if is, was := s.NodeAffinity, old.NodeAffinity; was != nil && !resource.Same(is, newerLabels(was, is)) {
		errs = append(errs, field.Invalid(field.NewPath("nodeAffinity"), rule.Internal(is),
			"field is immutable, except for updating from beta label to GA"))
	}
	if at := specPath.Child("volumeAttributesClassName"); old.VolumeAttributesClassName != nil && s.VolumeAttributesClassName == nil {
		errs = append(errs, field.Forbidden(at, "update from non-nil value to nil is forbidden"))
	}
	return errs
}

// modePath is the field in the error for a changed volume mode: without its spec.
var modePath = field.NewPath("volumeMode")

// newLabels are the names that the labels of nodes have got which volumes of old ask for.
var newLabels = map[string]string{"failure-domain.beta.kubernetes.io/zone": corev1.LabelTopologyZone,
	"failure-domain.beta.kubernetes.io/region": corev1.LabelTopologyRegion, "beta.kubernetes.io/os": corev1.LabelOSStable,
	"beta.kubernetes.io/arch": corev1.LabelArchStable, "beta.kubernetes.io/instance-type": corev1.LabelInstanceTypeStable}

// newerLabels returns a copy of an affinity with those labels renamed that like has by their new name.
func newerLabels(a, like *corev1.VolumeNodeAffinity) *corev1.VolumeNodeAffinity {
	if a = a.DeepCopy(); a.Required == nil || like == nil || like.Required == nil {
		return a
	}
	terms, others := a.Required.NodeSelectorTerms, like.Required.NodeSelectorTerms
	for i := range min(len(terms), len(others)) {
		for k := range min(len(terms[i].MatchExpressions), len(others[i].MatchExpressions)) {
			key := &terms[i].MatchExpressions[k].Key
			if to := newLabels[*key]; to == others[i].MatchExpressions[k].Key { // none at all is refused elsewhere
				*key = to
			}
		}
	}
	return a
}

func validateClaim(c, old *corev1.PersistentVolumeClaim) field.ErrorList {
	errs := podspec.ValidateClaimSpec(&c.Spec, specPath)
	if old == nil {
		return errs
	}
	if groupedSource(&old.Spec) {
		errs = slices.DeleteFunc(errs, func(e *field.Error) bool {
			return e.Type == field.ErrorTypeInvalid && (e.Field == "spec.dataSource.apiGroup" || e.Field == "spec.dataSourceRef.apiGroup")
		})
	}
	return append(errs, validateClaimUpdate(c, old)...)
}

// groupedSource says that a claim's source names a group: older servers did not look at it.
func groupedSource(s *corev1.PersistentVolumeClaimSpec) bool {
	return s.DataSource != nil && s.DataSource.APIGroup != nil || s.DataSourceRef != nil && s.DataSourceRef.APIGroup != nil
}

// validateClaimUpdate lets a claim be bound once; a bound one may grow, and take another class of attributes.
func validateClaimUpdate(c, old *corev1.PersistentVolumeClaim) (errs field.ErrorList) {
	is, was := c.Spec.DeepCopy(), old.Spec.DeepCopy()
	podspec.AlignDataSources(was)
	if was.VolumeName == "" {
		was.VolumeName = is.VolumeName
	}
	errs = classChange(c, old, is)
	before, now := was.Resources.Requests[corev1.ResourceStorage], is.Resources.Requests[corev1.ResourceStorage]
	if c.Status.Phase == corev1.ClaimBound {
		if is.Resources.Requests != nil {
			is.Resources.Requests[corev1.ResourceStorage] = before
		}
		is.VolumeAttributesClassName = was.VolumeAttributesClassName
	}
	if !resource.Same(is, was) {
		errs = append(errs, field.Forbidden(specPath,
			"spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"))
	}
	have := old.Status.Capacity[corev1.ResourceStorage]
	if now.Cmp(before) < 0 && now.Cmp(have) <= 0 {
		errs = append(errs, field.Forbidden(specPath.Child("resources", "requests", "storage"), "field can not be less than status.capacity"))
	}
	errs = append(errs, validation.ValidateImmutableField(c.Spec.VolumeMode, old.Spec.VolumeMode, modePath)...)
	class, at := c.Spec.VolumeAttributesClassName, specPath.Child("volumeAttributesClassName")
	if !resource.Same(class, old.Spec.VolumeAttributesClassName) && old.Status.CurrentVolumeAttributesClassName != nil &&
		(class == nil || *class == "") {
		errs = append(errs, field.Forbidden(at, "update to nil is forbidden when status.currentVolumeAttributesClassName is not nil"))
	}
	return errs
}

// classChange lets a claim without a storage class get one later: the default class, or the one of its annotation, which
// stays as it is unless the field takes its place. is is the spec to be compared with the old one.
func classChange(c, old *corev1.PersistentVolumeClaim, is *corev1.PersistentVolumeClaimSpec) field.ErrorList {
	before, annotated := old.Annotations[corev1.BetaStorageClassAnnotation]
	now, still := c.Annotations[corev1.BetaStorageClassAnnotation]
	class := c.Spec.StorageClassName
	late := old.Spec.StorageClassName == nil && class != nil && (!annotated || *class == before)
	if late {
		is.StorageClassName = nil
	}
	if now == before || late && annotated && !still {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "annotations", corev1.BetaStorageClassAnnotation), now,
		validation.FieldImmutableErrorMsg)}
}

// resizeStates are the states that a claim may have while it grows.
var resizeStates = []corev1.ClaimResourceStatus{corev1.PersistentVolumeClaimControllerResizeInProgress,
	corev1.PersistentVolumeClaimControllerResizeInfeasible,
	corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimNodeResizeInProgress,
	corev1.PersistentVolumeClaimNodeResizeInfeasible}

func validateClaimStatus(c, _ *corev1.PersistentVolumeClaim) (errs field.ErrorList) {
	for _, n := range slices.Sorted(maps.Keys(c.Status.Capacity)) {
		errs = append(errs, podspec.ValidateAmount(c.Status.Capacity[n], statusPath.Child("capacity").Key(string(n)))...)
	}
	at := statusPath.Child("allocatedResourceStatuses")
	for _, n := range slices.Sorted(maps.Keys(c.Status.AllocatedResourceStatuses)) {
		errs = append(errs, claimResource(n, at)...)
		errs = append(errs, rule.Among(c.Status.AllocatedResourceStatuses[n], at, resizeStates...)...)
	}
	at = statusPath.Child("allocatedResources")
	for _, n := range slices.Sorted(maps.Keys(c.Status.AllocatedResources)) {
		if bad := claimResource(n, at); len(bad) > 0 {
			errs = append(errs, bad...)
			continue
		}
		errs = append(errs, podspec.ValidateAmount(c.Status.AllocatedResources[n], at.Key(string(n)))...)
	}
	return errs
}

// claimResource checks the name of what a claim has: of Kubernetes' own it is storage only.
func claimResource(n corev1.ResourceName, path *field.Path) field.ErrorList {
	errs := rule.Format(string(n), path, utilvalidation.IsQualifiedName)
	if len(errs) == 0 && podspec.IsNativeResource(n) && n != corev1.ResourceStorage {
		errs = append(errs, field.NotSupported(path, n, []corev1.ResourceName{corev1.ResourceStorage}))
	}
	return errs
}
