package token

import (
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// The lifetimes in seconds. A pod's injected token asks for 3607 seconds; it is made to work for a year, so
// that clients that never read their token again go on working, and says after when that deserves a warning.
const (
	defaultLife  = 3600
	minLife      = 600
	injectedLife = 3607
	extendedLife = 365 * 24 * 3600
)

// Request answers a TokenRequest for the service account: it returns a copy of it with its status filled in.
// The errors are those of the API.
func (s *Signer) Request(read resource.Reader, sa *corev1.ServiceAccount,
	tr *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	out := tr.DeepCopy()
	if err := s.Complete(out); err != nil {
		return nil, err
	}
	now := s.cfg.Now()
	c := &Claims{Issuer: s.cfg.Issuer, Subject: auth.ServiceAccountName(sa.Namespace, sa.Name),
		Audience: out.Spec.Audiences, IssuedAt: now.Unix(), NotBefore: now.Unix(), ID: string(uuid.NewUUID()),
		Bound: Bound{Namespace: sa.Namespace, ServiceAccount: Ref{sa.Name, string(sa.UID)}}}
	if ref := out.Spec.BoundObjectRef; ref != nil {
		if err := bind(read, sa, ref, &c.Bound); err != nil {
			return nil, err
		}
	}
	life := *out.Spec.ExpirationSeconds
	c.Expiry = now.Unix() + life
	if life == injectedLife && c.Bound.Pod != nil && s.onlyOurs(c.Audience) {
		c.Bound.WarnAfter, c.Expiry = c.Expiry, now.Unix()+extendedLife
	}
	text, err := s.Sign(c)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	out.Status = authenticationv1.TokenRequestStatus{Token: text,
		ExpirationTimestamp: metav1.Time{Time: now.Add(time.Duration(life) * time.Second)}}
	return out, nil
}

// Complete fills in what a TokenRequest leaves out, and validates it.
func (s *Signer) Complete(tr *authenticationv1.TokenRequest) error {
	if tr.Spec.ExpirationSeconds == nil {
		life := int64(defaultLife)
		tr.Spec.ExpirationSeconds = &life
	}
	if len(tr.Spec.Audiences) == 0 {
		tr.Spec.Audiences = slices.Clone(s.cfg.Audiences)
	}
	if errs := validate(&tr.Spec); len(errs) > 0 {
		gk := authenticationv1.SchemeGroupVersion.WithKind("TokenRequest").GroupKind()
		return apierrors.NewInvalid(gk, "", errs)
	}
	return nil
}

func validate(spec *authenticationv1.TokenRequestSpec) (errs field.ErrorList) {
	path := field.NewPath("spec", "expirationSeconds")
	switch life := *spec.ExpirationSeconds; {
	case life < minLife:
		errs = append(errs, field.Invalid(path, life, "may not specify a duration less than 10 minutes"))
	case life > 1<<32:
		errs = append(errs, field.Invalid(path, life, "may not specify a duration larger than 2^32 seconds"))
	}
	return errs
}

func (s *Signer) onlyOurs(audiences []string) bool {
	for _, a := range audiences {
		if !slices.Contains(s.cfg.Audiences, a) {
			return false
		}
	}
	return true
}

// What a token can die with.
var (
	podKind    = corev1.SchemeGroupVersion.WithKind("Pod").GroupKind()
	secretKind = corev1.SchemeGroupVersion.WithKind("Secret").GroupKind()
	nodeKind   = corev1.SchemeGroupVersion.WithKind("Node").GroupKind()
)

// bind looks up what the token shall die with.
func bind(read resource.Reader, sa *corev1.ServiceAccount, ref *authenticationv1.BoundObjectReference, b *Bound) error {
	var obj resource.Object
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	kind := gvk.GroupKind() // upstream looks at no version
	if ref.Name == "" && (kind == podKind || kind == secretKind || kind == nodeKind) {
		return apierrors.NewBadRequest("Name parameter required.")
	}
	switch kind {
	case podKind:
		pod := resource.Get(read, core.Pods, sa.Namespace, ref.Name)
		if pod == nil {
			return apierrors.NewNotFound(core.Pods.Info().GR(), ref.Name)
		}
		if pod.Spec.ServiceAccountName != sa.Name {
			return apierrors.NewBadRequest(fmt.Sprintf(
				"cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", sa.Name))
		}
		obj, b.Pod, b.Node = pod, &Ref{pod.Name, string(pod.UID)}, nodeOf(read, pod)
	case secretKind:
		secret := resource.Get(read, core.Secrets, sa.Namespace, ref.Name)
		if secret == nil {
			return apierrors.NewNotFound(core.Secrets.Info().GR(), ref.Name)
		}
		obj, b.Secret = secret, &Ref{secret.Name, string(secret.UID)}
	case nodeKind:
		node := resource.Get(read, core.Nodes, "", ref.Name)
		if node == nil {
			return apierrors.NewNotFound(core.Nodes.Info().GR(), ref.Name)
		}
		obj, b.Node = node, &Ref{node.Name, string(node.UID)}
	default:
		return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s", gvk.String()))
	}
	if ref.UID != "" && ref.UID != obj.GetUID() {
		return apierrors.NewConflict(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, ref.Name, fmt.Errorf(
			"the UID in the bound object reference (%s) does not match the UID in record. "+
				"The object might have been deleted and then recreated", ref.UID))
	}
	return nil
}

// nodeOf names the node that a pod runs on, as information: the token does not die with it.
func nodeOf(read resource.Reader, pod *corev1.Pod) *Ref {
	if pod.Spec.NodeName == "" {
		return nil
	}
	ref := &Ref{Name: pod.Spec.NodeName}
	if node := resource.Get(read, core.Nodes, "", ref.Name); node != nil {
		ref.UID = string(node.UID)
	}
	return ref
}
