package extensions

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
)

// components is for componentstatuses, which upstream computes too.
var components = server.Extension{Resource: corev1.Resource("componentstatuses"), Compute: componentStatuses}

// componentStatuses tells the health of the parts as upstream names them. They are one process: if this
// code runs, they run.
func componentStatuses(_ context.Context, _ resource.Kind, _, name string) (list []resource.Object, err error) {
	names := []string{"controller-manager", "etcd-0", "scheduler"}
	if name != "" && !slices.Contains(names, name) {
		return nil, apierrors.NewNotFound(corev1.Resource("componentstatus"), name) // as upstream names it
	}
	for _, name := range names {
		list = append(list, &corev1.ComponentStatus{ObjectMeta: metav1.ObjectMeta{Name: name},
			Conditions: []corev1.ComponentCondition{{Type: corev1.ComponentHealthy, Status: corev1.ConditionTrue, Message: "ok"}}})
	}
	return list, nil
}
