package localstorage

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/localvolume"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// The classes. The first is that of k3s, the second what charts written for other distributions name.
const (
	classPath     = "local-path"
	classStandard = "standard"
	classImage    = "local-image"
)

const (
	isDefault = "storageclass.kubernetes.io/is-default-class"
	ours      = "app.kubernetes.io/managed-by" // marks our classes
	us        = "kloop"
)

// Classes returns the loop that keeps the storage classes of local storage. Off: those that it made go.
//
//	reads   StorageClass
//	writes  StorageClass: create, delete
//	rule    there are the classes, one of them the default unless another is; whoever changes one, or brings his own of the name,
//	        keeps it so
func Classes(on bool) *loop.Controller[*storagev1.StorageClass] {
	return &loop.Controller[*storagev1.StorageClass]{
		Name:   "local-storage-classes",
		For:    kinds.StorageClasses,
		Skip:   func(s *storagev1.StorageClass) bool { return on || s.Labels[ours] != us },
		Wake:   []loop.Wake{loop.Deleted(kinds.StorageClasses)},
		Writes: []resource.Kind{kinds.StorageClasses},
		Find: func(_ resource.Reader, wake func(ns, name string)) {
			for _, name := range []string{classPath, classStandard, classImage} {
				wake("", name)
			}
		},
		Reconcile: func(ctx context.Context, c *loop.Ctx, s *storagev1.StorageClass) (time.Duration, error) {
			if on || s.Labels[ours] != us || s.Provisioner != localvolume.Provisioner {
				return 0, nil
			}
			return 0, c.Delete(ctx, kinds.StorageClasses, s)
		},
		Gone: func(ctx context.Context, c *loop.Ctx, key loop.Key) (time.Duration, error) {
			s := class(key.Name, resource.List(c, kinds.StorageClasses, ""))
			if !on || s == nil {
				return 0, nil
			}
			_, err := c.Create(ctx, kinds.StorageClasses, s)
			if apierrors.IsAlreadyExists(err) {
				err = nil
			}
			return 0, err
		},
	}
}

// class is the class of a name as it is made, nil if the name is none of ours. have are those that there are.
func class(name string, have []*storagev1.StorageClass) *storagev1.StorageClass {
	waits, grows, policy := storagev1.VolumeBindingWaitForFirstConsumer, true, corev1.PersistentVolumeReclaimDelete
	s := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{ours: us}},
		Provisioner:       localvolume.Provisioner,
		VolumeBindingMode: &waits, AllowVolumeExpansion: &grows, ReclaimPolicy: &policy}
	switch name {
	case classPath:
		for _, h := range have {
			if h.Annotations[isDefault] == "true" {
				return s
			}
		}
		s.Annotations = map[string]string{isDefault: "true"}
	case classStandard:
	case classImage:
		s.Parameters = map[string]string{parameterForm: formImage}
	default:
		return nil
	}
	return s
}
