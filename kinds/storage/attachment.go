package storage

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// VolumeAttachments declares the kind.
var VolumeAttachments = &resource.Def[*storagev1.VolumeAttachment]{
	GVK: gvk("VolumeAttachment"), Plural: "volumeattachments", Status: true,
	Quirks: resource.Quirks{NeedsRevision: true, DeleteReturnsObject: true, MetaErrorsOnce: true, StatusAsNew: true,
		StatusResets: []string{"metadata"}},
	Validate: resource.Serving(validateAttachment), ValidateStatus: resource.Serving(validateAttachmentStatus),
	Columns: []resource.Column[*storagev1.VolumeAttachment]{
		{Name: "Attacher", Type: "string", Format: "name", Cell: func(a *storagev1.VolumeAttachment) any { return a.Spec.Attacher }},
		resource.Col("PV", "string", func(a *storagev1.VolumeAttachment) any { return orDefault(a.Spec.Source.PersistentVolumeName, "") }),
		resource.Col("Node", "string", func(a *storagev1.VolumeAttachment) any { return a.Spec.NodeName }),
		resource.Col("Attached", "boolean", func(a *storagev1.VolumeAttachment) any { return a.Status.Attached }),
		resource.Age[*storagev1.VolumeAttachment](),
	},
}

func validateAttachment(a, old *storagev1.VolumeAttachment) (errs field.ErrorList) {
	s, spec := &a.Spec, field.NewPath("spec")
	errs = append(errs, rule.Needed(s.Attacher, spec.Child("attacher"))...)
	errs = append(errs, source(&s.Source, spec.Child("source"))...)
	errs = append(errs, rule.Format(s.NodeName, spec.Child("nodeName"), rule.Subdomain)...)
	if old != nil {
		errs = append(errs, rule.Frozen(*s, old.Spec, spec)...)
	}
	if s.Attacher != "" {
		errs = append(errs, driverName(s.Attacher, spec.Child("attacher"))...)
	}
	if pv := s.Source.PersistentVolumeName; pv != nil {
		errs = append(errs, rule.Format(*pv, spec.Child("source", "persistentVolumeName"), rule.Subdomain)...)
	}
	return errs
}

func source(s *storagev1.VolumeAttachmentSource, path *field.Path) field.ErrorList {
	const one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
	switch pv, inline := s.PersistentVolumeName, s.InlineVolumeSpec; {
	case pv == nil && inline == nil:
		return field.ErrorList{field.Required(path, one)}
	case pv != nil && inline != nil:
		return field.ErrorList{field.Forbidden(path, one)}
	case pv == nil:
		return inlineVolume(inline, path.Child("inlineVolumeSpec"))
	case *pv == "":
		return field.ErrorList{field.Required(path.Child("persistentVolumeName"), "must specify non empty persistentVolumeName")}
	}
	return nil
}

// inlineVolume checks a volume that stands in a pod: it was translated to CSI, and nobody claims it.
func inlineVolume(v *corev1.PersistentVolumeSpec, path *field.Path) (errs field.ErrorList) {
	const not = "may not be specified in the context of inline volumes"
	for _, f := range []struct {
		name, says string
		set        bool
	}{
		{"claimRef", not, v.ClaimRef != nil}, {"capacity", not, len(v.Capacity) > 0}, {"storageClassName", not, v.StorageClassName != ""},
		{"nodeAffinity", not, v.NodeAffinity != nil},
		{"persistentVolumeReclaimPolicy", "may only be Retain in the context of inline volumes",
			v.PersistentVolumeReclaimPolicy != "" && v.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain},
		{"volumeMode", "may not specify volumeMode other than Filesystem in the context of inline volumes",
			v.VolumeMode != nil && *v.VolumeMode != corev1.PersistentVolumeFilesystem},
	} {
		if f.set {
			errs = append(errs, field.Forbidden(path.Child(f.name), f.says))
		}
	}
	errs = append(errs, podspec.ValidateAccessModes(v.AccessModes, path.Child("accessModes"))...)
	csi := path.Child("csi")
	if v.CSI == nil {
		errs = append(errs, field.Required(csi, "has to be specified in the context of inline volumes"))
		if reflect.ValueOf(v.PersistentVolumeSource).IsZero() {
			errs = append(errs, field.Required(path, "must specify a volume type"))
		}
		return errs
	}
	rest := v.PersistentVolumeSource
	if rest.CSI = nil; !reflect.ValueOf(rest).IsZero() {
		return append(errs, field.Forbidden(csi, "may not specify more than 1 volume type"))
	}
	errs = append(errs, podspec.ValidateDriverName(v.CSI.Driver, csi.Child("driver"))...)
	return append(errs, rule.Needed(v.CSI.VolumeHandle, csi.Child("volumeHandle"))...)
}

func validateAttachmentStatus(a, _ *storagev1.VolumeAttachment) (errs field.ErrorList) {
	path, size := field.NewPath("status"), 0
	for k, v := range a.Status.AttachmentMetadata {
		size += len(k) + len(v)
	}
	if size > maxParametersSize {
		errs = append(errs, field.TooLong(path.Child("attachmentMetadata"), "", maxParametersSize))
	}
	for name, e := range map[string]*storagev1.VolumeError{"attachError": a.Status.AttachError, "detachError": a.Status.DetachError} {
		if e != nil && len(e.Message) > maxErrorMessage {
			errs = append(errs, field.TooLong(path.Child(name, "message"), "", maxErrorMessage))
		}
		if e != nil {
			errs = append(errs, rule.AtLeastPtr(e.ErrorCode, 0, path.Child(name, "errorCode"))...)
		}
	}
	return errs
}
