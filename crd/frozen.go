package crd

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// frozen are the setters of an object that others read at the same time: whoever calls one has not cloned it first,
// which is a fault of the program.
type frozen struct{}

const frozenText = "a stored custom resource is shared and never changes: clone it first"

// SetUnstructuredContent implements runtime.Unstructured.
func (frozen) SetUnstructuredContent(map[string]any) { panic(frozenText) }

// UnmarshalJSON implements json.Unmarshaler.
func (frozen) UnmarshalJSON([]byte) error { panic(frozenText) }

// SetName implements metav1.Object, as do all that follow.
func (frozen) SetName(string) { panic(frozenText) }

// SetNamespace implements metav1.Object.
func (frozen) SetNamespace(string) { panic(frozenText) }

// SetGenerateName implements metav1.Object.
func (frozen) SetGenerateName(string) { panic(frozenText) }

// SetUID implements metav1.Object.
func (frozen) SetUID(types.UID) { panic(frozenText) }

// SetResourceVersion implements metav1.Object.
func (frozen) SetResourceVersion(string) { panic(frozenText) }

// SetSelfLink implements metav1.Object.
func (frozen) SetSelfLink(string) { panic(frozenText) }

// SetGeneration implements metav1.Object.
func (frozen) SetGeneration(int64) { panic(frozenText) }

// SetCreationTimestamp implements metav1.Object.
func (frozen) SetCreationTimestamp(metav1.Time) { panic(frozenText) }

// SetDeletionTimestamp implements metav1.Object.
func (frozen) SetDeletionTimestamp(*metav1.Time) { panic(frozenText) }

// SetDeletionGracePeriodSeconds implements metav1.Object.
func (frozen) SetDeletionGracePeriodSeconds(*int64) { panic(frozenText) }

// SetLabels implements metav1.Object.
func (frozen) SetLabels(map[string]string) { panic(frozenText) }

// SetAnnotations implements metav1.Object.
func (frozen) SetAnnotations(map[string]string) { panic(frozenText) }

// SetFinalizers implements metav1.Object.
func (frozen) SetFinalizers([]string) { panic(frozenText) }

// SetOwnerReferences implements metav1.Object.
func (frozen) SetOwnerReferences([]metav1.OwnerReference) { panic(frozenText) }

// SetManagedFields implements metav1.Object.
func (frozen) SetManagedFields([]metav1.ManagedFieldsEntry) { panic(frozenText) }
