package resourceclaim

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// ofTemplate is the annotation that says which of the pod's claims an object was made for.
const ofTemplate = "resource.kubernetes.io/pod-claim-name"

// extended names a pod's claim for extended resources here, beside those that its spec names. The scheduler makes it.
const extended = "<extended-resources>"

// Pods is the loop that makes claims of templates: wake on a pod that names a template, on its claims, and on the
// template.
var Pods = &loop.Controller[*corev1.Pod]{
	Name: "resource-claim-pods",
	For:  kinds.Pods,
	Skip: func(p *corev1.Pod) bool {
		return len(p.Spec.ResourceClaims) == 0 && p.Status.ExtendedResourceClaimStatus == nil
	},
	Wake:   []loop.Wake{loop.Owner(kinds.ResourceClaims), loop.Each(kinds.ResourceClaimTemplates, whoNames)},
	Writes: []resource.Kind{kinds.ResourceClaims, kinds.Pods},
	Reconcile: func(ctx context.Context, c *loop.Ctx, p *corev1.Pod) (time.Duration, error) {
		if p.DeletionTimestamp != nil || over(p) {
			return 0, nil
		}
		return 0, makeClaims(ctx, c, p)
	},
}

// over says whether the pod needs its devices no more.
func over(p *corev1.Pod) bool {
	return core.Terminal(p) ||
		p.DeletionTimestamp != nil && p.Spec.NodeName == ""
}

// makeClaims makes the claims that are missing, tells the pod the names of all, and removes those that are too many.
func makeClaims(ctx context.Context, c *loop.Ctx, p *corev1.Pod) error {
	made, spare := choose(p, resource.Owned(c, kinds.ResourceClaims, p))
	for _, want := range plan(p, made) {
		t := resource.Get(c, kinds.ResourceClaimTemplates, p.Namespace, *want.ResourceClaimTemplateName)
		if t == nil {
			c.Waiting("ResourceClaimTemplate %s", *want.ResourceClaimTemplateName)
			c.Event(kinds.Pods, p, corev1.EventTypeWarning, "FailedResourceClaimCreation",
				"PodResourceClaim %s: resource claim template %q: resourceclaimtemplate.resource.k8s.io %q not found", want.Name,
				*want.ResourceClaimTemplateName, *want.ResourceClaimTemplateName)
			return nil
		}
		obj, err := c.Create(ctx, kinds.ResourceClaims, fromTemplate(p, want.Name, t))
		if err != nil {
			c.Event(kinds.Pods, p, corev1.EventTypeWarning, "FailedResourceClaimCreation", "PodResourceClaim %s: %v", want.Name, err)
			return fmt.Errorf("make the claim %s of a template: %w", want.Name, err)
		}
		made[want.Name] = obj.GetName()
	}
	if err := tell(ctx, c, p, made); err != nil {
		return err
	}
	for _, claim := range spare {
		if err := c.Delete(ctx, kinds.ResourceClaims, claim); err != nil {
			return err
		}
	}
	return nil
}

// choose says which claim is which of the pod's, and which were made once too often: who did not hear that a claim was
// made makes another. The one that the pod knows stays, whatever else there is: it may have its devices already. Until
// the pod knows one, all stay.
func choose(p *corev1.Pod, owned []*resourcev1.ResourceClaim) (made map[string]string, spare []*resourcev1.ResourceClaim) {
	known := told(p)
	made = map[string]string{}
	for _, claim := range owned {
		name := nameOf(claim)
		if claim.Name == known[name] || made[name] == "" && claim.DeletionTimestamp == nil {
			made[name] = claim.Name
		}
	}
	for _, claim := range owned {
		name := nameOf(claim)
		if known[name] != "" && made[name] == known[name] && claim.Name != known[name] &&
			claim.DeletionTimestamp == nil && len(claim.Status.ReservedFor) == 0 {
			spare = append(spare, claim)
		}
	}
	return made, spare
}

// nameOf returns the pod's name for a claim that was made for it.
func nameOf(claim *resourcev1.ResourceClaim) string {
	if claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true" {
		return extended
	}
	return claim.Annotations[ofTemplate]
}

// told are the names of claims that the pod knows.
func told(p *corev1.Pod) map[string]string {
	known := map[string]string{}
	for _, s := range p.Status.ResourceClaimStatuses {
		if s.ResourceClaimName != nil {
			known[s.Name] = *s.ResourceClaimName
		}
	}
	if s := p.Status.ExtendedResourceClaimStatus; s != nil {
		known[extended] = s.ResourceClaimName
	}
	return known
}

// plan lists the pod's claims that are to be made of templates and are not there yet.
func plan(p *corev1.Pod, made map[string]string) (missing []corev1.PodResourceClaim) {
	for _, want := range p.Spec.ResourceClaims {
		if want.ResourceClaimTemplateName != nil && made[want.Name] == "" {
			missing = append(missing, want)
		}
	}
	return missing
}

// fromTemplate is the claim that the template stands for, of the pod's own.
func fromTemplate(p *corev1.Pod, name string, t *resourcev1.ResourceClaimTemplate) *resourcev1.ResourceClaim {
	claim := &resourcev1.ResourceClaim{ObjectMeta: *t.Spec.ObjectMeta.DeepCopy(), Spec: *t.Spec.Spec.DeepCopy()}
	claim.Namespace, claim.GenerateName = p.Namespace, prefix(p.Name, name)
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, ofTemplate, name)
	ref := metav1.NewControllerRef(p, corev1.SchemeGroupVersion.WithKind("Pod"))
	ref.BlockOwnerDeletion = nil // a pod that is deleted in the foreground does not wait for its claims
	claim.OwnerReferences = append(claim.OwnerReferences, *ref)
	return claim
}

// prefix begins the name of a pod's claim. The server would cut a long one at its end, and leave nothing of the claim's part.
func prefix(pod, claim string) string {
	const room = 57 // of the 63 of a generated name, without a hyphen and five letters
	if all := len(pod) + len("-") + len(claim); all > room {
		pod, claim = strings.TrimRight(pod[:len(pod)*room/all], "."), claim[:len(claim)*room/all] // no label begins with a hyphen
	}
	return pod + "-" + claim + "-"
}

// tell writes the claims' names into the pod's status, unless the pod has changed since: it may have been told others.
func tell(ctx context.Context, c *loop.Ctx, p *corev1.Pod, made map[string]string) error {
	known := told(p)
	var list []map[string]any
	differs := false
	for _, want := range p.Spec.ResourceClaims {
		if name := made[want.Name]; want.ResourceClaimTemplateName != nil {
			list = append(list, map[string]any{"name": want.Name, "resourceClaimName": name})
			differs = differs || known[want.Name] != name
		}
	}
	if !differs {
		return nil
	}
	data, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": p.Name, "uid": p.UID, "resourceVersion": p.ResourceVersion},
		"status":   map[string]any{"resourceClaimStatuses": list}})
	if err != nil {
		return err
	}
	return c.Patch(ctx, kinds.Pods, p, client.Patch{Type: types.ApplyPatchType, Data: data, Sub: "status", Force: true,
		Manager: "ResourceClaimController"})
}

// whoNames wakes the pods that name a template.
func whoNames(obj resource.Object, read resource.Reader, wake func(ns, name string)) {
	for _, p := range resource.List(read, kinds.Pods, obj.GetNamespace()) {
		for _, want := range p.Spec.ResourceClaims {
			if want.ResourceClaimTemplateName != nil && *want.ResourceClaimTemplateName == obj.GetName() {
				wake(p.Namespace, p.Name)
			}
		}
	}
}
