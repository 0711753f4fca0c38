package admission

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Because is forbidden with a cause that programs can read.
func (r *Request) Because(cause metav1.CauseType, format string, args ...any) error {
	err := apierrors.NewForbidden(r.GR(), r.name(), fmt.Errorf(format, args...))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: cause}}
	return err
}
