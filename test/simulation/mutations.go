package simulation

import (
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/resource"
)

// A mutation breaks the cluster on purpose, where a loop's calls pass: the checks must notice. A nil one breaks nothing.
type mutation struct {
	lag       int // at least, of every reader
	onCreate  func(h *faultyClient, k resource.Kind, obj resource.Object) resource.Object
	onCreated func(obj resource.Object) resource.Object
	onUpdate  func(h *faultyClient, k resource.Kind, obj resource.Object) resource.Object
	onPatch   func(h *faultyClient, k resource.Kind, p client.Patch) client.Patch
	onRemove  func(h *faultyClient, k resource.Kind, opts *metav1.DeleteOptions) *metav1.DeleteOptions
	onCall    func(h *faultyClient, in resource.Object) resource.Object
	onReview  func(answer *admissionv1.AdmissionResponse)
	onVictim  func(h *faultyClient, k resource.Kind, ns, name string) string // whom a deletion means
	byForce   bool                                                           // evictions ask no budget
}

func (b *mutation) create(c *faultyClient, k resource.Kind, obj resource.Object) resource.Object {
	if b == nil || b.onCreate == nil {
		return obj
	}
	return b.onCreate(c, k, obj)
}

func (b *mutation) created(obj resource.Object, err error) (resource.Object, error) {
	if b == nil || b.onCreated == nil || err != nil {
		return obj, err
	}
	return b.onCreated(obj), nil
}

func (b *mutation) update(c *faultyClient, k resource.Kind, obj resource.Object) resource.Object {
	if b == nil || b.onUpdate == nil {
		return obj
	}
	return b.onUpdate(c, k, obj)
}

func (b *mutation) patch(c *faultyClient, k resource.Kind, p client.Patch) client.Patch {
	if b == nil || b.onPatch == nil {
		return p
	}
	return b.onPatch(c, k, p)
}

func (b *mutation) remove(c *faultyClient, k resource.Kind, opts *metav1.DeleteOptions) *metav1.DeleteOptions {
	if b == nil || b.onRemove == nil {
		return opts
	}
	return b.onRemove(c, k, opts)
}

func (b *mutation) call(c *faultyClient, in resource.Object) resource.Object {
	if b == nil || b.onCall == nil {
		return in
	}
	return b.onCall(c, in)
}

func (b *mutation) review(answer *admissionv1.AdmissionResponse) {
	if b != nil && b.onReview != nil {
		b.onReview(answer)
	}
}

func (b *mutation) victim(c *faultyClient, k resource.Kind, ns, name string) string {
	if b == nil || b.onVictim == nil {
		return name
	}
	return b.onVictim(c, k, ns, name)
}
