package httpapi

import (
	"fmt"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/server"
)

// decodeQuery reads options out of query parameters. Unknown parameters are ignored, malformed ones are 400.
func decodeQuery(q url.Values, into any) error {
	var err error
	switch o := into.(type) {
	case *metav1.ListOptions:
		err = metav1.Convert_url_Values_To_v1_ListOptions(&q, o, nil)
	case *metav1.GetOptions:
		err = metav1.Convert_url_Values_To_v1_GetOptions(&q, o, nil)
	case *metav1.CreateOptions:
		err = metav1.Convert_url_Values_To_v1_CreateOptions(&q, o, nil)
	case *metav1.UpdateOptions:
		err = metav1.Convert_url_Values_To_v1_UpdateOptions(&q, o, nil)
	case *metav1.PatchOptions:
		err = metav1.Convert_url_Values_To_v1_PatchOptions(&q, o, nil)
	case *metav1.DeleteOptions:
		err = metav1.Convert_url_Values_To_v1_DeleteOptions(&q, o, nil)
	case *metav1.TableOptions:
		err = metav1.Convert_url_Values_To_v1_TableOptions(&q, o, nil)
	}
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// noExport refuses a parameter that upstream took away in 1.18, as upstream does, unless it is false.
func noExport(q url.Values) error {
	words, ok := q["export"]
	if !ok {
		return nil
	}
	var asked bool
	if err := runtime.Convert_Slice_string_To_bool(&words, &asked, nil); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the export parameter cannot be parsed: %v", err))
	}
	if asked {
		return apierrors.NewBadRequest("the export parameter, deprecated since v1.14, is no longer supported")
	}
	return nil
}

// invalidOptions is the error of options that were understood and are wrong.
func invalidOptions(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}

// writeOptions are the options that creates, updates and patches share.
type writeOptions struct {
	DryRun []string
	Owner  string
	Fields string
	Force  bool
}

func createOptions(r *http.Request) (w writeOptions, err error) {
	var o metav1.CreateOptions
	if err = decodeQuery(r.URL.Query(), &o); err == nil {
		err = invalidOptions("CreateOptions", validation.ValidateCreateOptions(&o))
	}
	return writeOptions{DryRun: o.DryRun, Owner: o.FieldManager, Fields: o.FieldValidation}, err
}

func updateOptions(r *http.Request) (w writeOptions, err error) {
	var o metav1.UpdateOptions
	if err = decodeQuery(r.URL.Query(), &o); err == nil {
		err = invalidOptions("UpdateOptions", validation.ValidateUpdateOptions(&o))
	}
	return writeOptions{DryRun: o.DryRun, Owner: o.FieldManager, Fields: o.FieldValidation}, err
}

func patchOptions(r *http.Request, pt types.PatchType) (w writeOptions, err error) {
	var o metav1.PatchOptions
	if err = decodeQuery(r.URL.Query(), &o); err == nil {
		err = invalidOptions("PatchOptions", validation.ValidatePatchOptions(&o, pt))
	}
	force := o.Force != nil && *o.Force
	return writeOptions{DryRun: o.DryRun, Owner: o.FieldManager, Fields: o.FieldValidation, Force: force}, err
}

// apply puts the options into the request.
func (w writeOptions) apply(r *server.Request) {
	r.DryRun = len(w.DryRun) > 0
	r.Manager = w.Owner
	r.Strict = server.FieldValidation(w.Fields)
	if w.Fields == "" {
		r.Strict = server.FieldsWarn
	}
}
