package storage

import (
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/pods"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// VolumeAttachments declares the kind.
var VolumeAttachments = &resource.Def[*storagev1.VolumeAttachment]{
	GVK: gvk("VolumeAttachment"), Plural: "volumeattachments", Status: true,
	Quirks: resource.Quirks{NeedsRevision: true, DeleteReturnsObject: true, MetaErrorsOnce: true, StatusAsNew: true,
		StatusResets: []string{"metadata"}, Declared: []string{"Invalid spec"}},
	Default: func(a *storagev1.VolumeAttachment) {
		if inline := a.Spec.Source.InlineVolumeSpec; inline != nil {
			pods.DefaultVolumeSource(inline)
		}
	},
	Gated:          resource.Gated[*storagev1.VolumeAttachment]{Validate: resource.Serving(validateAttachment)},
	ValidateStatus: resource.Serving(validateAttachmentStatus),
	Columns: []resource.Column[*storagev1.VolumeAttachment]{
		{Name: "Attacher", Type: "string", Format: "name", Cell: func(a *storagev1.VolumeAttachment) any { return a.Spec.Attacher }},
		resource.Col("PV", "string", func(a *storagev1.VolumeAttachment) any { return orDefault(a.Spec.Source.PersistentVolumeName, "") }),
		resource.Col("Node", "string", func(a *storagev1.VolumeAttachment) any { return a.Spec.NodeName }),
		resource.Col("Attached", "boolean", func(a *storagev1.VolumeAttachment) any { return a.Status.Attached }),
		resource.Age[*storagev1.VolumeAttachment](),
	},
}

func validateAttachment(on *features.Set, a, old *storagev1.VolumeAttachment) (errs field.ErrorList) {
	s, spec := &a.Spec, field.NewPath("spec")
	errs = append(errs, rule.Needed(s.Attacher, spec.Child("attacher"))...)
	errs = append(errs, source(&s.Source, spec.Child("source"))...)
	errs = append(errs, rule.Format(s.NodeName, spec.Child("nodeName"), rule.Subdomain)...)
	if old != nil {
		for _, e := range rule.Frozen(*s, old.Spec, spec) { // since 1.37 without a value
			if e.BadValue = any(rule.Internal(*s)); on.AtLeast(37) {
				e.BadValue = nil
			}
			errs = append(errs, e)
		}
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
		return pods.ValidateVolumeSpec(inline, "", true, path.Child("inlineVolumeSpec"))
	case *pv == "":
		return field.ErrorList{field.Required(path.Child("persistentVolumeName"), "must specify non empty persistentVolumeName")}
	}
	return nil
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
