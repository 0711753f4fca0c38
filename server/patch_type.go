package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/apply"
)

// typed holds a document, as a JSON or merge patch has left it, to the kind of the request. Strategic patches keep the type
// whatever they say.
func (p *patching) typed(doc []byte) error {
	gvk, ok := p.says(doc)
	switch {
	case !ok:
		return nil
	case p.r.Kind.Info().Custom:
		return p.typedCustom(doc, gvk)
	}
	return p.typedBuiltin(doc, gvk, p.r.Spoken().Kind, p.decodes(gvk.GroupVersion()))
}

// typedScale is typed for the scale of an object.
func (p *patching) typedScale(doc []byte) error {
	gvk, ok := p.says(doc)
	if !ok {
		return nil
	}
	old := early.MatchString(gvk.Version) && (gvk.Group == "apps" || gvk.Group == "extensions")
	return p.typedBuiltin(doc, gvk, scales.GVK.Kind, old || gvk.GroupVersion() == scales.GVK.GroupVersion())
}

// says returns what the document is, if the patch may have changed that.
func (p *patching) says(doc []byte) (gvk schema.GroupVersionKind, ok bool) {
	if p.kind == types.StrategicMergePatchType || !bytes.Contains(p.data, []byte("kind")) && !bytes.Contains(p.data, []byte("apiVersion")) {
		return gvk, false
	}
	var got metav1.TypeMeta
	if json.Unmarshal(doc, &got) != nil {
		return gvk, false // it does not decode, and its decoder says so
	}
	return schema.FromAPIVersionAndKind(got.APIVersion, got.Kind), true
}

// speaks is the version in which the document is read: a JSON or merge patch of a kind that is built in may have written another one
// that is served into it.
func (p *patching) speaks(doc []byte) schema.GroupVersionKind {
	i := p.r.Kind.Info()
	if gvk, ok := p.says(doc); ok && !i.Custom && slices.Contains(i.Served(), gvk) {
		return gvk
	}
	return p.r.Spoken()
}

// kindless is the reason why a document that is no object has no kind.
func kindless(doc []byte) error {
	var t struct {
		APIVersion string `json:"apiVersion,omitempty"`
		Kind       string `json:"kind,omitempty"`
	}
	return fmt.Errorf("couldn't get version/kind; json parse error: %w", json.Unmarshal(doc, &t))
}

// SchemeAt is the name of upstream's scheme, the place in its source where it is made.
const SchemeAt = "pkg/runtime/scheme.go:111"

// typedBuiltin is typed for a kind that is built in; known says that it exists in the version.
func (p *patching) typedBuiltin(doc []byte, gvk schema.GroupVersionKind, kind string, known bool) error {
	if gvk.Kind != "" && gvk.Kind != kind || gvk.Version != "" && !known {
		return apply.Unfit(doc, fmt.Errorf("no kind %q is registered for version %q in scheme %q", gvk.Kind, gvk.GroupVersion(), SchemeAt))
	}
	if gvk.Version == "" && gvk.Group == "" {
		if err := p.strict(doc, nameless(doc)); err != nil {
			return err
		}
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: name must be provided",
			p.r.Name))
	}
	return nil
}

// nameless are the fields of a document that says no version: upstream reads it as the form that it has in memory, in which
// nothing has its name.
func nameless(doc []byte) (errs []error) {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(doc, &fields) // it was read before
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name != "apiVersion" && name != "kind" {
			errs = append(errs, fmt.Errorf("unknown field %q", name))
		}
	}
	return errs
}

// typedCustom is typed for a kind that a definition made: what is no longer of the version and kind of the request is invalid, and through
// a subresource becomes that again.
func (p *patching) typedCustom(doc []byte, gvk schema.GroupVersionKind) error {
	var errs field.ErrorList
	want := p.r.Spoken()
	switch {
	case gvk.Kind == "":
		return apply.Unfit(doc, fmt.Errorf("object 'Kind' is missing in %q", doc))
	case gvk.Version == "":
		return apply.Unfit(doc, fmt.Errorf("%s is not suitable for converting to %q", gvk, want.GroupVersion()))
	case p.r.Sub != "":
		return nil
	}
	if gvk.Kind != want.Kind {
		errs = append(errs, field.Invalid(field.NewPath("kind"), gvk.Kind, "must be "+want.Kind))
	}
	if gv := gvk.GroupVersion(); gv != want.GroupVersion() {
		errs = append(errs, field.Invalid(field.NewPath("apiVersion"), gv.String(), "must be "+want.GroupVersion().String()))
	}
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(gvk.GroupKind(), p.r.Name, errs)
}

// early are versions that once were served; upstream decodes those of built-in kinds to this day, but for those of autoscaling.
var early = regexp.MustCompile(`^v[0-9]+(alpha|beta)[0-9]+$`)

// decodes says whether objects of the kind exist in the version, served or not.
func (p *patching) decodes(gv schema.GroupVersion) bool {
	i := p.r.Kind.Info()
	same := func(o schema.GroupVersionKind) bool { return o.GroupVersion() == gv }
	switch {
	case same(i.GVK), slices.ContainsFunc(i.Also, same):
		return true
	}
	return early.MatchString(gv.Version) && i.GVK.Group != "autoscaling" && (gv.Group == i.GVK.Group || gv.Group == "extensions")
}
