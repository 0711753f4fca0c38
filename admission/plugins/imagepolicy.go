package plugins

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/admission"
)

const (
	imagePlugin = "ImagePolicyWebhook"
	imageAudit  = "imagepolicywebhook.image-policy.k8s.io/"
	maxVerdicts = 1024 // remembered
)

// ImageReview is imagepolicy.k8s.io/v1alpha1's, as JSON carries it: the server that judges is asked in no other form.
type ImageReview struct {
	metav1.TypeMeta
	metav1.ObjectMeta `json:"metadata"`
	Spec              ImageReviewSpec   `json:"spec"`
	Status            ImageReviewStatus `json:"status"`
}

// ImageReviewSpec is the question: the images of a pod, and its annotations that are meant for the judge.
type ImageReviewSpec struct {
	Containers  []ImageReviewContainer `json:"containers,omitempty"`
	Annotations map[string]string      `json:"annotations,omitempty"`
	Namespace   string                 `json:"namespace,omitempty"`
}

// ImageReviewContainer is a container of the pod.
type ImageReviewContainer struct {
	Image string `json:"image,omitempty"`
}

// ImageReviewStatus is the verdict.
type ImageReviewStatus struct {
	Allowed          bool              `json:"allowed"`
	Reason           string            `json:"reason,omitempty"`
	AuditAnnotations map[string]string `json:"auditAnnotations,omitempty"`
}

type images struct {
	policy *admission.ImagePolicy
	now    func() time.Time

	mu    sync.Mutex
	known map[string]verdict
}

type verdict struct {
	status ImageReviewStatus
	until  time.Time
}

func newImages(p *admission.ImagePolicy, now func() time.Time) *images {
	return &images{policy: p, now: now, known: map[string]verdict{}}
}

func (i *images) validate(ctx context.Context, r *admission.Request) error {
	pod, ok := imagesToPull(r)
	if i.policy == nil || !ok {
		return nil
	}
	spec := ImageReviewSpec{Namespace: r.Namespace, Annotations: map[string]string{}}
	for _, c := range pod.Spec.InitContainers {
		spec.Containers = append(spec.Containers, ImageReviewContainer{Image: c.Image})
	}
	for _, c := range pod.Spec.Containers {
		spec.Containers = append(spec.Containers, ImageReviewContainer{Image: c.Image})
	}
	for k, v := range pod.Annotations {
		if strings.Contains(k, ".image-policy.k8s.io/") {
			spec.Annotations[k] = v
		}
	}
	s, err := i.judge(ctx, spec)
	if err != nil {
		if !i.policy.DefaultAllow {
			return r.Refuse("%w", err)
		}
		r.Note(imageAudit+"failed-open", "true")
		return nil
	}
	for k, v := range s.AuditAnnotations {
		r.Note(imageAudit+k, v)
	}
	switch {
	case s.Allowed:
		return nil
	case s.Reason != "":
		return r.Refuse("image policy webhook backend denied one or more images: %s", s.Reason)
	}
	return r.Refuse("one or more images rejected by webhook backend")
}

// judge asks for a verdict, unless one is remembered.
func (i *images) judge(ctx context.Context, spec ImageReviewSpec) (s ImageReviewStatus, err error) {
	key, err := json.Marshal(spec)
	if err != nil {
		return s, err
	}
	i.mu.Lock()
	v, ok := i.known[string(key)]
	i.mu.Unlock()
	if ok && i.now().Before(v.until) {
		return v.status, nil
	}
	review := &ImageReview{TypeMeta: metav1.TypeMeta{APIVersion: "imagepolicy.k8s.io/v1alpha1", Kind: "ImageReview"}, Spec: spec}
	answer := &ImageReview{}
	if err := i.policy.Ask(ctx, review, answer); err != nil {
		return s, err
	}
	life := i.policy.Deny
	if answer.Status.Allowed {
		life = i.policy.Allow
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for old := range i.known {
		if len(i.known) < maxVerdicts {
			break
		}
		delete(i.known, old)
	}
	i.known[string(key)] = verdict{answer.Status, i.now().Add(life)}
	return answer.Status, nil
}
