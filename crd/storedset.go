package crd

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// frozen is what the setters of a Stored say: whoever calls one would change what others read.
const frozen = "a stored custom resource is shared and never changes: clone it first"

// SetGroupVersionKind implements schema.ObjectKind.
func (s *Stored) SetGroupVersionKind(gvk schema.GroupVersionKind) {
	if gvk != s.read.gvk {
		panic(frozen)
	}
}

// SetUnstructuredContent implements runtime.Unstructured.
func (s *Stored) SetUnstructuredContent(map[string]any) { panic(frozen) }

// UnmarshalJSON implements json.Unmarshaler.
func (s *Stored) UnmarshalJSON([]byte) error { panic(frozen) }

// SetName implements metav1.Object, as do all that follow.
func (s *Stored) SetName(string) { panic(frozen) }

// SetNamespace implements metav1.Object.
func (s *Stored) SetNamespace(string) { panic(frozen) }

// SetGenerateName implements metav1.Object.
func (s *Stored) SetGenerateName(string) { panic(frozen) }

// SetUID implements metav1.Object.
func (s *Stored) SetUID(types.UID) { panic(frozen) }

// SetResourceVersion implements metav1.Object.
func (s *Stored) SetResourceVersion(string) { panic(frozen) }

// SetSelfLink implements metav1.Object.
func (s *Stored) SetSelfLink(string) { panic(frozen) }

// SetGeneration implements metav1.Object.
func (s *Stored) SetGeneration(int64) { panic(frozen) }

// SetCreationTimestamp implements metav1.Object.
func (s *Stored) SetCreationTimestamp(metav1.Time) { panic(frozen) }

// SetDeletionTimestamp implements metav1.Object.
func (s *Stored) SetDeletionTimestamp(*metav1.Time) { panic(frozen) }

// SetDeletionGracePeriodSeconds implements metav1.Object.
func (s *Stored) SetDeletionGracePeriodSeconds(*int64) { panic(frozen) }

// SetLabels implements metav1.Object.
func (s *Stored) SetLabels(map[string]string) { panic(frozen) }

// SetAnnotations implements metav1.Object.
func (s *Stored) SetAnnotations(map[string]string) { panic(frozen) }

// SetFinalizers implements metav1.Object.
func (s *Stored) SetFinalizers([]string) { panic(frozen) }

// SetOwnerReferences implements metav1.Object.
func (s *Stored) SetOwnerReferences([]metav1.OwnerReference) { panic(frozen) }

// SetManagedFields implements metav1.Object.
func (s *Stored) SetManagedFields([]metav1.ManagedFieldsEntry) { panic(frozen) }
