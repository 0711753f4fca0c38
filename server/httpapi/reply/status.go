package reply

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// StatusOf turns any error into a Status. Errors that carry none become 500, with upstream's empty reason.
func StatusOf(err error) *metav1.Status {
	var known apierrors.APIStatus
	switch {
	case errors.As(err, &known):
		st := known.Status()
		FillStatus(&st)
		return &st
	case errors.Is(err, context.DeadlineExceeded):
		st := apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0).Status()
		FillStatus(&st)
		return &st
	}
	st := &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}
	FillStatus(st)
	return st
}

// FillStatus completes a Status as upstream sends it.
func FillStatus(st *metav1.Status) {
	st.Kind, st.APIVersion = "Status", "v1"
	if st.Status == "" {
		st.Status = metav1.StatusFailure
	}
	if st.Code == 0 {
		st.Code = http.StatusInternalServerError
		if st.Status == metav1.StatusSuccess {
			st.Code = http.StatusOK
		}
	}
}

// Generic is the error of a path or method that is not served; it says nothing about the resource.
func Generic(code int) error {
	message := ""
	if code == http.StatusUnsupportedMediaType {
		message = fmt.Sprintf("%d: %s", code, http.StatusText(code))
	}
	return apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", message, 0, false)
}

// Unrouted is the error of a path that answers in none of the media types that the client takes, but in these.
func Unrouted(types string) error {
	const code = http.StatusNotAcceptable
	message := fmt.Sprintf("%d: %s\n\nAvailable representations: %s", code, http.StatusText(code), types)
	return apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", message, 0, false)
}

// Error builds a Status error that has no details.
func Error(code int32, reason metav1.StatusReason, format string, args ...any) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason,
		Message: fmt.Sprintf(format, args...)}}
}

// A Noter is a ResponseWriter that wants to know the Status that is answered in place of what was asked for.
type Noter interface {
	Failed(st *metav1.Status)
}

// Fail answers with the error as a Status, in the media type that the client asked for if it is one for plain
// objects, else in JSON.
func (s Sender) Fail(w http.ResponseWriter, r *http.Request, err error) {
	st := StatusOf(err)
	if n, ok := w.(Noter); ok {
		n.Failed(st)
	}
	if st.Details != nil && st.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(st.Details.RetryAfterSeconds)))
	}
	acc, ok := Negotiate(r.Header.Get("Accept"), true, nil)
	if !ok { // whoever reads it then is a person, to upstream
		acc = Accepted{Pretty: true}
	}
	acc.Pretty = acc.Pretty || WantsPretty(r)
	s.Object(w, r, acc, int(st.Code), st)
}

// NotFoundPage answers paths that are no part of the API.
func NotFoundPage(w http.ResponseWriter) { http.Error(w, "404 page not found", http.StatusNotFound) }

// Lost answers a path that upstream can't take apart, before it looks at anything else.
func Lost(w http.ResponseWriter, r *http.Request) {
	text := fmt.Sprintf("Internal Server Error: %q: failed to create RequestInfo: unable to determine kind and namespace from url, %v",
		r.RequestURI, r.URL)
	http.Error(w, tame.Replace(text), http.StatusInternalServerError)
}

// tame keeps a path from being read as markup.
var tame = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
