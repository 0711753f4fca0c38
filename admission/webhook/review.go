package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/admission/cel"
	"github.com/kloop-dev/kloop/admission/match"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// beta is the first version of the review. It looks as v1 does, so its package is not linked.
var beta = schema.GroupVersion{Group: admissionv1.GroupName, Version: "v1beta1"}

// version chooses the version of the review: the first that both sides know.
func (h *hook) version() (schema.GroupVersion, error) {
	for _, v := range h.AdmissionReviewVersions {
		switch v {
		case "v1":
			return admissionv1.SchemeGroupVersion, nil
		case "v1beta1":
			return beta, nil
		}
	}
	return schema.GroupVersion{}, errors.New("webhook does not accept known AdmissionReview versions (v1, v1beta1)")
}

// question is the request as the webhook is asked about it. Both versions of the review look the same.
func (c *asking) question(ctx context.Context, h *hook, as match.As) (*admissionv1.AdmissionReview, error) {
	gv, err := h.version()
	if err != nil {
		return nil, err
	}
	r := c.r
	q := cel.Describe(r, as.Kind, as.Resource)
	q.UID, q.Options = uuid.NewUUID(), runtime.RawExtension{}
	obj, old, err := c.texts(ctx, as.Kind)
	if err != nil {
		return nil, err
	}
	q.Object.Raw, q.OldObject.Raw = obj, old
	if opts, ok := r.Options.(runtime.Object); ok && !isNil(opts) {
		kind := opts.GetObjectKind().GroupVersionKind()
		if kind.Empty() || kind.Group == r.GVK.Group { // clients send delete options of the object's own group
			kind = schema.GroupVersionKind{Group: metav1.GroupName, Version: "v1", Kind: optionsKind(r.Op)}
		}
		if q.Options.Raw, err = encode(opts, kind); err != nil {
			return nil, err
		}
	}
	review := &admissionv1.AdmissionReview{Request: q}
	review.SetGroupVersionKind(gv.WithKind("AdmissionReview"))
	return review, nil
}

func optionsKind(op admission.Op) string {
	switch op {
	case admission.Create:
		return "CreateOptions"
	case admission.Delete:
		return "DeleteOptions"
	}
	return "UpdateOptions"
}

// texts returns the objects of the request in a version, as JSON; they are made once for all who ask.
func (c *asking) texts(ctx context.Context, kind schema.GroupVersionKind) (obj, old json.RawMessage, err error) {
	if known, ok := c.text[kind]; ok {
		return known[0], known[1], nil
	}
	if obj, err = c.textOf(ctx, c.r.Object, kind); err == nil {
		old, err = c.textOf(ctx, c.r.Old, kind)
	}
	if err == nil && c.r.Target != nil {
		obj, err = encode(c.r.Target, kind)
	}
	if err != nil {
		return nil, nil, err
	}
	c.text[kind] = [2]json.RawMessage{obj, old}
	return obj, old, nil
}

func (c *asking) textOf(ctx context.Context, obj resource.Object, kind schema.GroupVersionKind) (json.RawMessage, error) {
	seen, err := cel.Seen(ctx, c.r, obj, kind)
	if err != nil {
		return nil, err
	}
	return encode(seen, kind)
}

// answer reads and checks what the webhook said.
func (h *hook) answer(data []byte, asked *admissionv1.AdmissionReview) (*admissionv1.AdmissionResponse, error) {
	var review admissionv1.AdmissionReview
	if _, err := codec.UnmarshalJSON(data, &review); err != nil {
		return nil, fmt.Errorf("couldn't get version/kind; json parse error: %w", err)
	}
	a := review.Response
	if a == nil {
		return nil, errors.New("webhook response was absent")
	}
	if asked.APIVersion == beta.String() { // less was checked then
		if a.PatchType = nil; len(a.Patch) > 0 {
			json := admissionv1.PatchTypeJSONPatch
			a.PatchType = &json
		}
		if h.validating {
			a.Patch, a.PatchType = nil, nil
		}
		return a, nil
	}
	return a, h.check(&review, asked)
}

func (h *hook) check(review, asked *admissionv1.AdmissionReview) error {
	a := review.Response
	switch {
	case a.UID != asked.Request.UID:
		return fmt.Errorf("expected response.uid=%q, got %q", asked.Request.UID, a.UID)
	case review.GroupVersionKind() != asked.GroupVersionKind():
		return fmt.Errorf("expected webhook response of %v, got %v", asked.GroupVersionKind().String(), review.GroupVersionKind().String())
	case h.validating && (len(a.Patch) > 0 || a.PatchType != nil):
		return errors.New("validating webhook may not return response.patch or response.patchType")
	case len(a.Patch) > 0 && a.PatchType == nil:
		return errors.New("webhook returned response.patch but not response.patchType")
	case len(a.Patch) == 0 && a.PatchType != nil:
		return errors.New("webhook returned response.patchType but not response.patch")
	case a.PatchType != nil && *a.PatchType == "":
		return fmt.Errorf("webhook returned invalid response.patchType of %q", *a.PatchType)
	}
	return nil
}

// denial is the answer to a request that a webhook does not allow. Whatever the webhook says, it is a failure.
func denial(name string, said *metav1.Status) *apierrors.StatusError {
	st := metav1.Status{}
	if said != nil {
		st = *said
	}
	st.Status = metav1.StatusFailure
	st.Code = max(st.Code, http.StatusBadRequest)
	by := fmt.Sprintf("admission webhook %q denied the request", name)
	switch {
	case st.Message != "":
		st.Message = by + ": " + st.Message
	case st.Reason != "":
		st.Message = by + ": " + string(st.Reason)
	default:
		st.Message = by + " without explanation"
	}
	return &apierrors.StatusError{ErrStatus: st}
}
