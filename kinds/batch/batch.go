// Package batch declares the kinds of the group batch: those that run to completion.
package batch

import (
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var all = []string{"all"}

func gvk(kind string) schema.GroupVersionKind { return batchv1.SchemeGroupVersion.WithKind(kind) }

func is(flag *bool) bool { return flag != nil && *flag }

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
