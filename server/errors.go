package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/view"
)

// The sentences that clients and tests match.
const (
	modifiedText = "the object has been modified; please apply your changes to the latest version and try again"
	tooOldText   = "The provided continue parameter is too old to display a consistent list result. You can start a new list without " +
		"the continue parameter, or use the continue token in this response to retrieve the remainder of the results. " +
		"Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted " +
		"between the time the first chunk was returned and now may show up in the list."
)

// StoreError turns what the store or the view could not do into an answer for the caller.
func StoreError(err error, doing string) error {
	var api apierrors.APIStatus
	switch {
	case errors.As(err, &api):
		return err
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, store.ErrUnavailable):
		return apierrors.NewTimeoutError(fmt.Sprintf("%s: %v", doing, err), 0)
	case errors.Is(err, store.ErrCompacted), errors.Is(err, view.ErrExpired):
		return apierrors.NewResourceExpired("The provided resource version is too old.")
	case errors.Is(err, store.ErrTooLarge):
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("%s: %v", doing, err))
	case errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrNoSpace):
		return apierrors.NewServiceUnavailable(fmt.Sprintf("%s: %v", doing, err))
	}
	return apierrors.NewInternalError(fmt.Errorf("%s: %w", doing, err))
}

// Doubtful says that a write that failed so may have happened all the same.
func Doubtful(err error) bool {
	return apierrors.IsTimeout(err) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err)
}

// NotFound is the 404 of the object that r names.
func NotFound(r *Request) error {
	return apierrors.NewNotFound(r.Resource(), r.Name)
}

func conflict(r *Request) error {
	return apierrors.NewConflict(r.Resource(), r.Name, errors.New(modifiedText))
}

// Resource is the group and resource as the caller names them: an alias of another group keeps its own.
func (r *Request) Resource() schema.GroupResource {
	return schema.GroupResource{Group: r.Spoken().Group, Resource: r.Kind.Info().Plural}
}

func exists(r *Request, obj resource.Object, current resource.Object) error {
	if obj.GetGenerateName() != "" {
		return apierrors.NewGenerateNameConflict(r.Resource(), obj.GetName(), 1)
	}
	err := apierrors.NewAlreadyExists(r.Resource(), obj.GetName())
	if current != nil && current.GetDeletionTimestamp() != nil {
		err.ErrStatus.Message = "object is being deleted: " + err.ErrStatus.Message
	}
	return err
}

// Invalid is the 422 of an object of r's kind, with a cause for each error.
func Invalid(r *Request, name string, errs field.ErrorList) error {
	return Refused(r.Kind.Info().GVK.GroupKind(), name, errs)
}

func invalidBody(err error) error { return apierrors.NewBadRequest(err.Error()) }

// badRevision says that a resourceVersion in a parameter is no number. To lists, and to who reads an Event, it is a 400; to others a 500.
func badRevision(v string, err error) string {
	return field.Invalid(field.NewPath("resourceVersion"), v, err.Error()).Error()
}

// illegible is the 400 of a resourceVersion that is no number.
func illegible(v string, err error) error {
	return apierrors.NewBadRequest("invalid resource version: " + badRevision(v, err))
}

// tooLarge is the answer to a revision that the server has not reached.
func tooLarge(asked, current int64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", asked, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge,
		Message: "Too large resource version"}}
	return err
}

// unretried leaves out of tooLarge when to ask again: upstream tells it of what it reads from its caches, and not of what its store
// answers.
func unretried(err error) error {
	if st, ok := err.(*apierrors.StatusError); ok && apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		st.ErrStatus.Details.RetryAfterSeconds = 0
	}
	return err
}

// NotAllowed is the 405 of a verb that r's resource does not have.
func NotAllowed(r *Request, verb string) error {
	return apierrors.NewMethodNotSupported(r.Resource(), verb)
}

// Panicked is the error of a request that panicked; the log has more.
func Panicked() error {
	return apierrors.NewInternalError(errors.New("this request caused the server to panic; see its log"))
}

// PlainError is an error without a reason, as some old endpoints answer.
func PlainError(text string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure,
		Code: http.StatusInternalServerError, Message: text}}
}

// maxTold is the number of errors of one object that an answer tells, maxText the length of them all but the last: each may tell a list
// of thousands.
const (
	maxTold = 1000
	maxText = 4 << 20
)

// fit counts the errors that an answer tells.
func fit(errs field.ErrorList) int {
	left := maxText
	for i, e := range errs {
		if i >= maxTold || left <= 0 {
			return i
		}
		left -= len(e.Error())
	}
	return len(errs)
}

// Refused is apierrors.NewInvalid in a time that grows with the errors: the library joins their texts one by one, and a body of
// 200 KB with a mistake in each of 5,000 items took 7 s and 25 GB.
//
// Unlike Kubernetes, an answer tells of the first 1,000 errors of an object, in 4 MiB, and how many there are.
func Refused(kind schema.GroupKind, name string, errs field.ErrorList) *apierrors.StatusError {
	st := apierrors.NewInvalid(kind, name, nil)
	if len(errs) == 0 {
		return st
	}
	more := ""
	if n := fit(errs); n < len(errs) {
		errs, more = errs[:n], fmt.Sprintf(" and %d more", len(errs)-n)
	}
	st.ErrStatus.Details.Causes = make([]metav1.StatusCause, 0, len(errs))
	texts, seen := make([]string, 0, len(errs)), make(map[string]bool, len(errs))
	for _, err := range errs {
		st.ErrStatus.Details.Causes = append(st.ErrStatus.Details.Causes,
			metav1.StatusCause{Type: metav1.CauseType(err.Type), Message: err.ErrorBody(), Field: err.Field})
		if text := err.Error(); !seen[text] {
			seen[text] = true
			texts = append(texts, text)
		}
	}
	all := strings.Join(texts, ", ")
	if len(texts) > 1 {
		all = "[" + all + "]"
	}
	st.ErrStatus.Message += ": " + all + more
	return st
}
