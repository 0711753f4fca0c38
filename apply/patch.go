package apply

import (
	"fmt"
	"net/http"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// maxOperations bounds a JSON patch, maxCopied the bytes that its copies add up to: they could blow up a document.
const (
	maxOperations = 10000
	maxCopied     = 3 << 20
)

// BoundCopies makes every JSON patch in this process fail whose operations copy more than 3 MiB in all; a few kilobytes could
// ask for gigabytes. The library has one bound for all who use it, so this is for whoever owns the process to call, before
// anything else runs.
func BoundCopies() { jsonpatch.AccumulatedCopySizeLimit = maxCopied }

// JSONPatch applies an RFC 6902 patch to a JSON document. A patch that can't be read is a 400, one that
// does not fit the document (a failing test, a missing path) a 422, one of more than 10,000 operations a 413.
func JSONPatch(doc, patch []byte) ([]byte, error) {
	p, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if len(p) > maxOperations {
		return nil, apierrors.NewRequestEntityTooLargeError(
			fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxOperations, len(p)))
	}
	if err := boundOperations(doc, patch, p); err != nil {
		return nil, err
	}
	out, err := p.Apply(doc)
	if err != nil {
		return nil, unprocessable(err)
	}
	return out, nil
}

// jsonPatchOp is an operation as field validation reads it.
type jsonPatchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

// CheckOperations returns the unknown and duplicate fields in the operations of a JSON patch. One that is no list of
// operations is a 400.
func CheckOperations(patch []byte) (strict []error, err error) {
	var ops []jsonPatchOp
	if strict, err = kjson.UnmarshalStrict(patch, &ops); err != nil {
		text := strings.ReplaceAll(err.Error(), "apply.jsonPatchOp", "handlers.jsonPatchOp") // as upstream's package is called
		return nil, apierrors.NewBadRequest("error decoding patch: " + text)
	}
	for i, err := range strict {
		strict[i] = fmt.Errorf("json patch %w", err)
	}
	return strict, nil
}

// MergePatch applies an RFC 7386 patch to a JSON document: null deletes, lists are replaced. A patch that is
// not a JSON object is a 400; if nobody looks at fields, a list takes the place of the document.
func MergePatch(doc, patch []byte, looked bool) ([]byte, error) {
	if _, _, err := codec.UnmarshalTree(patch); err != nil && looked {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	if out, ok := spliceMerge(doc, patch); ok {
		return out, nil
	}
	out, err := jsonpatch.MergePatch(doc, patch)
	if err == jsonpatch.ErrBadJSONPatch {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return out, internal(err)
}

// Strategic applies a strategic merge patch to the JSON document of an object of obj's type, whose patch tags
// say which lists merge by which key. obj's content does not matter. Custom resources have no such tags:
// the server answers 415 before.
func Strategic(doc, patch []byte, obj resource.Object) ([]byte, error) {
	var p map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(patch, &p); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return strategicTree(doc, p, obj)
}

// strategicTree is Strategic with a patch that is read, which it changes.
func strategicTree(doc []byte, patch map[string]any, obj resource.Object) ([]byte, error) {
	d, _, err := codec.UnmarshalTree(doc)
	if err != nil {
		return nil, internal(fmt.Errorf("decode the object to patch: %w", err))
	}
	out, err := strategic(d, patch, obj)
	switch err {
	case nil:
	case mergepatch.ErrBadJSONDoc, mergepatch.ErrBadPatchFormatForPrimitiveList, mergepatch.ErrBadPatchFormatForRetainKeys,
		mergepatch.ErrBadPatchFormatForSetElementOrderList, mergepatch.ErrUnsupportedStrategicMergePatchFormat:
		return nil, apierrors.NewBadRequest(err.Error())
	case mergepatch.ErrNoListOfLists:
		return nil, unprocessable(err)
	default:
		return nil, internal(err)
	}
	b, err := codec.MarshalJSON(&unstructured.Unstructured{Object: out})
	return b, internal(err)
}

// Duplicates names the duplicate keys of a patch in JSON, for field validation. It returns nothing for what
// is not JSON.
func Duplicates(patch []byte) []error {
	var v any
	strict, err := kjson.UnmarshalStrict(patch, &v)
	if err != nil {
		return nil
	}
	return strict
}

// Unfit is the answer when a document does not decode into its type after a patch: a 422 about the patch. It tells the
// document.
func Unfit(doc []byte, err error) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "",
		field.ErrorList{field.Invalid(field.NewPath("patch"), string(doc), err.Error())})
}

// UnfitMerge is Unfit after a merge patch. Once more it changes nothing of the document but the order of its fields: to that in which
// upstream tells them.
func UnfitMerge(doc, patch []byte, err error) error {
	if sorted, merr := jsonpatch.MergePatch(doc, patch); merr == nil {
		doc = sorted
	}
	return Unfit(doc, err)
}

// UnfitStrategic is Unfit after a strategic patch, whose text stands in the message, in the way that Go prints a map. What did not
// decode is read once more for the error, as upstream reads trees there; obj is an empty object of the type.
func UnfitStrategic(patch, doc []byte, obj resource.Object, err error) error {
	var p, d map[string]any
	if kjson.UnmarshalCaseSensitivePreserveInts(patch, &p) != nil {
		return Unfit(patch, err)
	}
	if kjson.UnmarshalCaseSensitivePreserveInts(doc, &d) == nil {
		if other := codec.FromTree(d, obj); other != nil {
			err = other
		}
	}
	return Unfit(fmt.Appendf(nil, "%+v", p), err)
}

// CheckName says whether a patched object still has the name and namespace of the request. An object without a namespace is given
// the request's; one that can't have one loses it.
func CheckName(obj resource.Object, ns, name string) error {
	if obj.GetName() == "" {
		return apierrors.NewBadRequest(fmt.Sprintf(
			"the name of the object (%s based on URL) was undeterminable: name must be provided", name))
	}
	if obj.GetName() != name {
		return apierrors.NewBadRequest(fmt.Sprintf(
			"the name of the object (%s) does not match the name on the URL (%s)", obj.GetName(), name))
	}
	switch was := obj.GetNamespace(); {
	case was == ns:
	case was == "" || ns == "": // what a patch says of it where there is none is not heard
		obj.SetNamespace(ns)
	default:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

func unprocessable(err error) error {
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
}

// internal passes status errors on and turns others into a 500 without a reason, as upstream does with errors
// that nobody expected.
func internal(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := err.(apierrors.APIStatus); ok {
		return err
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure,
		Code: http.StatusInternalServerError, Message: err.Error()}}
}

// strategic merges. The library compares values that can't be compared where a key of a list is itself a list or a map.
func strategic(doc, patch map[string]any, obj resource.Object) (out map[string]any, err error) {
	defer func() {
		if recover() != nil {
			err = mergepatch.ErrBadJSONDoc
		}
	}()
	if err := boundMerges(doc, patch, obj); err != nil {
		return nil, err
	}
	return strategicpatch.StrategicMergeMapPatch(doc, patch, obj)
}
