package plugins

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

const (
	defaultAccount   = "default"
	tokenVolume      = "kube-api-access-"
	tokenPath        = "/var/run/secrets/kubernetes.io/serviceaccount"
	rootCA           = "kube-root-ca.crt"
	enforceMountable = "kubernetes.io/enforce-mountable-secrets"
)

// How often, and how far apart, the default service account of a new namespace is looked for: the loop that
// makes it may be a moment behind the pod.
const (
	accountTries = 10
	accountPause = 100 * time.Millisecond
)

// accounts is the plugin ServiceAccount; suffix ends the names of the volumes that tokens are in.
type accounts struct{ suffix func() string }

// mutate gives every new pod an account, its token and its image pull secrets. A mirror pod stays as it is.
func (a accounts) mutate(ctx context.Context, r *admission.Request) error {
	pod, ok := r.Object.(*corev1.Pod)
	if !ok || !r.On("", "pods", admission.Create) {
		return nil
	}
	if isMirror(pod) {
		return checkMirror(r, pod)
	}
	if pod.Spec.ServiceAccountName == "" {
		pod.Spec.ServiceAccountName = defaultAccount
	}
	pod.Spec.DeprecatedServiceAccount = pod.Spec.ServiceAccountName
	sa, err := accountOf(ctx, r, pod.Spec.ServiceAccountName)
	if err != nil {
		return err
	}
	if automounts(sa, pod) {
		mountToken(&pod.Spec, a.suffix)
	}
	if len(pod.Spec.ImagePullSecrets) == 0 {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, sa.ImagePullSecrets...)
	}
	return nil
}

// validateServiceAccount keeps mirror pods free of accounts and secrets, and pods of accounts that ask for it
// to the secrets that the account names.
func validateServiceAccount(ctx context.Context, r *admission.Request) error {
	pod, ok := r.Object.(*corev1.Pod)
	if !ok || !r.On("", "pods", admission.Create) && !(r.Of("", "pods", admission.Update) && r.Sub == "ephemeralcontainers") {
		return nil
	}
	if isMirror(pod) && r.Op == admission.Create {
		return checkMirror(r, pod)
	}
	sa, err := accountOf(ctx, r, pod.Spec.ServiceAccountName)
	if err != nil {
		return err
	}
	if sa.Annotations[enforceMountable] != "true" {
		return nil
	}
	if err := checkSecrets(sa, pod); err != nil {
		return r.Refuse("%w", err)
	}
	return nil
}

func isMirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}

func checkMirror(r *admission.Request, pod *corev1.Pod) error {
	if pod.Spec.ServiceAccountName != "" {
		return r.Refuse("a mirror pod may not reference service accounts")
	}
	if namesSecret(reflect.ValueOf(&pod.Spec).Elem()) {
		return r.Refuse("a mirror pod may not reference secrets")
	}
	for _, v := range pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.ServiceAccountToken != nil {
				return r.Refuse("a mirror pod may not use ServiceAccountToken volume projections")
			}
		}
	}
	return nil
}

// accountOf finds the pod's account; for the default one it waits a little.
func accountOf(ctx context.Context, r *admission.Request, name string) (*corev1.ServiceAccount, error) {
	if sa := resource.Get(r.Read, core.ServiceAccounts, r.Namespace, name); sa != nil {
		return sa, nil
	}
	for try := 1; ; try++ {
		sa, err := admission.Live(ctx, r, core.ServiceAccounts, r.Namespace, name)
		if err == nil {
			return sa, nil
		}
		if !apierrors.IsNotFound(err) || name != defaultAccount || r.Live == nil || try == accountTries || !pause(ctx, accountPause) {
			if apierrors.IsNotFound(err) {
				err = apierrors.NewNotFound(schema.GroupResource{Resource: "serviceaccount"}, name) // upstream's word for it, here alone
			}
			return nil, r.Refuse("error looking up service account %s/%s: %w", r.Namespace, name, err)
		}
	}
}

// pause waits, and tells whether the context outlived it.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func automounts(sa *corev1.ServiceAccount, pod *corev1.Pod) bool {
	switch {
	case pod.Spec.AutomountServiceAccountToken != nil:
		return *pod.Spec.AutomountServiceAccountToken
	case sa.AutomountServiceAccountToken != nil:
		return *sa.AutomountServiceAccountToken
	}
	return true
}

// mountToken adds the token's volume, and mounts it in every container that has nothing at its place.
func mountToken(spec *corev1.PodSpec, suffix func() string) {
	name, have, need := "", false, false
	for _, v := range spec.Volumes {
		if strings.HasPrefix(v.Name, tokenVolume) {
			name, have = v.Name, true
			break
		}
	}
	if name == "" {
		name = tokenVolume + suffix()
	}
	mount := func(list []corev1.Container) {
		for i := range list {
			if !mounts(&list[i], tokenPath) {
				list[i].VolumeMounts = append(list[i].VolumeMounts, corev1.VolumeMount{Name: name, ReadOnly: true, MountPath: tokenPath})
				need = true
			}
		}
	}
	mount(spec.InitContainers)
	mount(spec.Containers)
	if need && !have {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: tokenSource()}})
	}
}

func mounts(c *corev1.Container, path string) bool {
	for _, m := range c.VolumeMounts {
		if m.MountPath == path {
			return true
		}
	}
	return false
}

// tokenSource is the volume that clients in a pod find the API server with: token, CA and namespace.
func tokenSource() *corev1.ProjectedVolumeSource {
	mode, life := int32(0o644), int64(3607)
	return &corev1.ProjectedVolumeSource{DefaultMode: &mode, Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &life}},
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: rootCA},
			Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace",
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}}}}},
	}}
}

// checkSecrets keeps a pod to the secrets that its account names.
func checkSecrets(sa *corev1.ServiceAccount, pod *corev1.Pod) error {
	mountable, pullable := map[string]bool{}, map[string]bool{}
	for _, s := range sa.Secrets {
		mountable[s.Name] = true
	}
	for _, s := range sa.ImagePullSecrets {
		pullable[s.Name] = true
	}
	for _, use := range secretsOf(pod) {
		if !mountable[use.secret] {
			return fmt.Errorf("%s secret.secretName=%q is not allowed because service account %s does not reference that secret",
				use.by, use.secret, sa.Name)
		}
	}
	for i, s := range pod.Spec.ImagePullSecrets {
		if !pullable[s.Name] {
			return fmt.Errorf("imagePullSecrets[%d].name=%q is not allowed because service account %s does not reference that imagePullSecret",
				i, s.Name, sa.Name)
		}
	}
	return nil
}

// A secretUse is one place where a pod uses a secret.
type secretUse struct{ by, secret string }

// secretsOf lists where a pod uses secrets, but for image pulls.
func secretsOf(pod *corev1.Pod) (uses []secretUse) {
	for _, v := range pod.Spec.Volumes {
		if v.Secret != nil {
			uses = append(uses, secretUse{"volume with", v.Secret.SecretName})
		}
	}
	add := func(kind, name string, env []corev1.EnvVar, from []corev1.EnvFromSource) {
		for _, e := range env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				uses = append(uses, secretUse{fmt.Sprintf("%s %s with envVar %s referencing", kind, name, e.Name),
					e.ValueFrom.SecretKeyRef.Name})
			}
		}
		for _, f := range from {
			if f.SecretRef != nil {
				uses = append(uses, secretUse{fmt.Sprintf("%s %s with envFrom referencing", kind, name), f.SecretRef.Name})
			}
		}
	}
	for _, c := range pod.Spec.InitContainers {
		add("init container", c.Name, c.Env, c.EnvFrom)
	}
	for _, c := range pod.Spec.Containers {
		add("container", c.Name, c.Env, c.EnvFrom)
	}
	for _, c := range pod.Spec.EphemeralContainers {
		add("ephemeral container", c.Name, c.Env, c.EnvFrom)
	}
	return uses
}
