package proof

import (
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/resource"
)

// bends break the cluster on purpose, where a loop's calls pass: the proof must notice. A nil *bends breaks nothing.
type bends struct {
	lag       int // at least, of every reader
	onCreate  func(h *hand, k resource.Kind, obj resource.Object) resource.Object
	onCreated func(obj resource.Object) resource.Object
	onUpdate  func(h *hand, k resource.Kind, obj resource.Object) resource.Object
	onPatch   func(h *hand, k resource.Kind, p client.Patch) client.Patch
	onRemove  func(h *hand, k resource.Kind, opts *metav1.DeleteOptions) *metav1.DeleteOptions
	onCall    func(h *hand, in resource.Object) resource.Object
	onReview  func(answer *admissionv1.AdmissionResponse)
	onVictim  func(h *hand, k resource.Kind, ns, name string) string // whom a deletion means
	byForce   bool                                                   // evictions ask no budget
}

func (b *bends) create(h *hand, k resource.Kind, obj resource.Object) resource.Object {
	if b == nil || b.onCreate == nil {
		return obj
	}
	return b.onCreate(h, k, obj)
}

func (b *bends) created(obj resource.Object, err error) (resource.Object, error) {
	if b == nil || b.onCreated == nil || err != nil {
		return obj, err
	}
	return b.onCreated(obj), nil
}

func (b *bends) update(h *hand, k resource.Kind, obj resource.Object) resource.Object {
	if b == nil || b.onUpdate == nil {
		return obj
	}
	return b.onUpdate(h, k, obj)
}

func (b *bends) patch(h *hand, k resource.Kind, p client.Patch) client.Patch {
	if b == nil || b.onPatch == nil {
		return p
	}
	return b.onPatch(h, k, p)
}

func (b *bends) remove(h *hand, k resource.Kind, opts *metav1.DeleteOptions) *metav1.DeleteOptions {
	if b == nil || b.onRemove == nil {
		return opts
	}
	return b.onRemove(h, k, opts)
}

func (b *bends) call(h *hand, in resource.Object) resource.Object {
	if b == nil || b.onCall == nil {
		return in
	}
	return b.onCall(h, in)
}

func (b *bends) review(answer *admissionv1.AdmissionResponse) {
	if b != nil && b.onReview != nil {
		b.onReview(answer)
	}
}

func (b *bends) victim(h *hand, k resource.Kind, ns, name string) string {
	if b == nil || b.onVictim == nil {
		return name
	}
	return b.onVictim(h, k, ns, name)
}
