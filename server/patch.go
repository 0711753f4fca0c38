package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/apply"
	"github.com/kloop-dev/kloop/openapi"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/view"
)

// A patching is one patch on its way.
type patching struct {
	s     *Server
	r     *Request
	kind  types.PatchType
	data  []byte
	force bool
	odd   []error // fields in the operations of a JSON patch that are unknown or there twice; transform finds them
}

// Patch implements Operations. A patch that names no resourceVersion is applied again when the object changed
// meanwhile; one that does is refused.
func (s *Server) Patch(ctx context.Context, r *Request, pt types.PatchType, data []byte, force bool) (*view.Entry, bool, error) {
	r.patch = true
	p := &patching{s: s, r: r, kind: pt, data: data, force: force}
	if err := p.check(); err != nil {
		return nil, false, err
	}
	c := &change{next: p.patched}
	if pt == types.ApplyYAMLPatchType {
		c.next, c.owned, c.create = p.applied, true, r.Sub == ""
	}
	var e *view.Entry
	var made bool
	var err error
	if r.Sub == "scale" {
		e, err = s.patchScale(ctx, p, c)
	} else {
		e, made, err = s.modify(ctx, r, c)
	}
	if err != nil && s.Kinds.Features().AtLeast(37) { // it is said first that a patch is no JSON, which no patch is that was applied
		err = cmp.Or(apply.Encodable(data, pt == types.ApplyYAMLPatchType), err)
	}
	return e, made, err
}

func (p *patching) check() error {
	accepted := []types.PatchType{types.JSONPatchType, types.MergePatchType, types.ApplyYAMLPatchType}
	switch p.kind {
	case types.JSONPatchType, types.MergePatchType:
		return nil
	case types.StrategicMergePatchType:
		if !p.r.Kind.Info().Custom {
			return nil
		}
	case types.ApplyYAMLPatchType:
		if p.r.Manager != "" {
			return nil
		}
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "PatchOptions"}, "", field.ErrorList{
			field.Required(field.NewPath("fieldManager"), "is required for apply patch")})
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType,
		Reason: metav1.StatusReasonUnsupportedMediaType, Details: &metav1.StatusDetails{},
		Message: fmt.Sprintf("the body of the request was in an unknown format - accepted media types include: %v", accepted)}}
}

// patched applies a JSON, merge or strategic patch.
func (p *patching) patched(ctx context.Context, cur *view.Entry) (resource.Object, error) {
	if obj := p.patchedFields(cur.Object); obj != nil {
		return obj, nil
	}
	doc, err := cur.JSON(ctx, p.r.Spoken())
	if err != nil {
		return nil, unconverted(p.r.Kind, err)
	}
	obj := p.r.Kind.New(p.r.Spoken())
	if doc, err = p.transform(doc, obj); err != nil {
		return nil, err
	}
	if err := p.typed(doc); err != nil {
		return nil, err
	}
	if bytes.HasPrefix(doc, []byte("[")) { // a merge patch that is a list
		return nil, apply.Unfit(doc, kindless(doc))
	}
	gvk := p.speaks(doc)
	obj = p.r.Kind.New(gvk)
	if err := codec.CheckElements(doc, obj); err != nil {
		return nil, apierrors.NewRequestEntityTooLargeError(err.Error())
	}
	strict, err := codec.UnmarshalJSON(doc, obj)
	if err != nil {
		if obj = p.r.Kind.New(gvk); !p.wraps(doc, obj) {
			return nil, p.unfit(doc, p.r.Kind.New(p.r.Spoken()), err)
		}
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk) // a patch may have written something else there
	for _, path := range openapi.Trim(p.s.Kinds.Features(), obj) {
		strict = append(strict, fmt.Errorf("unknown field %q", path))
	}
	if err := p.strict(doc, strict); err != nil {
		return nil, err
	}
	if err := apply.CheckName(obj, p.r.Scope(), p.r.Name); err != nil {
		return nil, err
	}
	hub, err := p.r.ToHub(ctx, obj)
	if says, ok := p.says(doc); ok && err == nil {
		resource.EarlyDefaults(p.r.Kind, says.GroupVersion(), hub)
	}
	return hub, err
}

// patchedFields applies a patch to the fields that it names, where no version but the stored one is spoken. It returns nil where the
// whole document is to be patched: it gives the errors and the warnings.
func (p *patching) patchedFields(old resource.Object) resource.Object {
	i := p.r.Kind.Info()
	if _, sealed := old.(resource.Sealed); sealed || i.Custom || i.EmptyCounts || p.r.Spoken() != i.GVK {
		return nil // where an empty list counts, one that the patch does not name has to be left out of the document
	}
	obj := apply.PatchFields(p.kind, p.data, old)
	if obj == nil || len(openapi.Trim(p.s.Kinds.Features(), obj)) > 0 || apply.CheckName(obj, p.r.Scope(), p.r.Name) != nil {
		return nil
	}
	return obj
}

func (p *patching) transform(doc []byte, obj resource.Object) ([]byte, error) {
	switch p.kind {
	case types.JSONPatchType:
		if p.r.Strict != FieldsIgnore {
			var err error
			if p.odd, err = apply.CheckOperations(p.data); err != nil {
				return nil, err
			}
		}
		return apply.JSONPatch(doc, p.data)
	case types.MergePatchType:
		return apply.MergePatch(doc, p.data, p.r.Strict != FieldsIgnore)
	}
	return apply.Strategic(doc, p.data, obj)
}

// strict treats unknown and duplicate fields as the caller wishes.
func (p *patching) strict(doc []byte, errs []error) error {
	if p.r.Strict == FieldsIgnore {
		return nil
	}
	twice := p.odd
	if p.kind != types.JSONPatchType {
		twice = apply.Duplicates(p.data)
	}
	errs = append(twice, errs...)
	if len(errs) == 0 {
		return nil
	}
	if p.r.Strict == FieldsStrict {
		return p.unfit(doc, nil, runtime.NewStrictDecodingError(errs))
	}
	for _, err := range errs {
		p.r.warn(err.Error())
	}
	return nil
}

// wraps decodes what a strategic patch made of an object and JSON can't be decoded as: upstream keeps trees there, and the numbers in
// them that are too large for their fields lose their upper bits. obj is empty.
func (p *patching) wraps(doc []byte, obj any) bool {
	tree, _, err := codec.UnmarshalTree(doc)
	return p.kind == types.StrategicMergePatchType && err == nil && codec.FromTree(tree, obj) == nil
}

// unfit says that the document does not fit its type after the patch; empty is of the type, or nil if only fields are odd.
func (p *patching) unfit(doc []byte, empty resource.Object, err error) error {
	switch {
	case p.kind == types.MergePatchType:
		return apply.UnfitMerge(doc, p.data, err)
	case p.kind != types.StrategicMergePatchType:
		return apply.Unfit(doc, err)
	case empty == nil:
		return apply.UnfitStrategic(p.data, nil, nil, err)
	}
	return apply.UnfitStrategic(p.data, doc, empty, err)
}

// strictYAML is strict for applied configurations: unknown fields were refused before.
func (p *patching) strictYAML(twice []error) error {
	switch {
	case len(twice) == 0 || p.r.Strict == FieldsIgnore:
		return nil
	case p.r.Strict == FieldsStrict:
		text := fmt.Sprintf("error strict decoding patch: error converting YAML to JSON: %v", twice[0])
		return p.oldWords(apierrors.NewBadRequest(text))
	}
	for _, text := range codec.Warnings(twice) {
		p.r.warn(text)
	}
	return nil
}

// oldWords is the error as versions before 1.37 worded it.
func (p *patching) oldWords(err error) error {
	var s *apierrors.StatusError
	if !p.s.Kinds.Features().AtLeast(37) && errors.As(err, &s) {
		s.ErrStatus.Message = strings.Replace(s.ErrStatus.Message, "decoding patch: ", "decoding YAML: ", 1)
	}
	return err
}

// applied merges an applied configuration.
func (p *patching) applied(ctx context.Context, cur *view.Entry) (resource.Object, error) {
	var old resource.Object
	if cur != nil {
		var err error
		if old, err = p.s.owners.requestVersion(ctx, p.r, resource.Opened(cur.Object)); err != nil {
			return nil, err
		}
	}
	given, err := apply.Read(p.data)
	if err != nil {
		return nil, p.oldWords(err)
	}
	obj, err := p.s.Fields.Apply(p.s.owners.write(p.r), old, given, p.force)
	if err != nil {
		return nil, err
	}
	if later := openapi.Trim(p.s.Kinds.Features(), obj); later != nil {
		return nil, PlainError(fmt.Sprintf("failed to create typed patch object (%s/%s; %s): .%s: field not declared in schema",
			p.r.Namespace, p.r.Name, p.r.Spoken(), later[0]))
	}
	if err := p.strictYAML(given.Twice); err != nil {
		return nil, err
	}
	if err := apply.CheckName(obj, p.r.Scope(), p.r.Name); err != nil {
		return nil, err
	}
	if k, custom := p.r.Kind.(interface{ Tidy(obj resource.Object) }); custom {
		k.Tidy(obj)
	}
	if p.r.Sub == "scale" {
		return obj, nil
	}
	return p.r.ToHub(ctx, obj)
}
