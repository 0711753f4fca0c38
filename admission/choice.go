package admission

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Unclassified is an error that upstream gives no code of its own.
func Unclassified(text string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Message: text}}
}

// AnnotationOf is an annotation of the request's namespace.
func AnnotationOf(ctx context.Context, r *Request, key string) (string, bool, error) {
	ns, err := NamespaceOf(ctx, r)
	if err != nil {
		return "", false, err
	}
	text, ok := ns.Annotations[key]
	return text, ok, nil
}
