package plugins

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/authtest"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/scheduling"
	"github.com/kloop-dev/kloop/resource"
)

// admit runs the chain as the server does: it returns the object after the mutating pass.
func admit[T resource.Object](c admission.Chain, r *admission.Request, obj T) (T, error) {
	r.Object = resource.Clone(obj)
	if r.User == nil {
		r.User = &auth.User{Name: "somebody"}
	}
	if r.Namespace == "" {
		r.Namespace = obj.GetNamespace()
	}
	if r.Name == "" {
		r.Name = obj.GetName()
	}
	if err := c.Mutate(context.Background(), r); err != nil {
		return obj, err
	}
	return r.Object.(T), c.Validate(context.Background(), r)
}

// refused checks an API error by its reason and a part of its text.
func refused(t *testing.T, err error, reason metav1.StatusReason, text string) {
	t.Helper()
	if apierrors.ReasonForError(err) != reason || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want %s %s", err, reason, text)
	}
}

func only(p admission.Plugin) admission.Chain { return admission.Chain{p} }

func plugin(t *testing.T, name string) admission.Chain {
	t.Helper()
	for _, p := range Default(admission.Config{}) {
		if p.Name == name {
			return only(p)
		}
	}
	t.Fatalf("no plugin %s", name)
	return nil
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}}
}

func simplePod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
}

func TestOrder(t *testing.T) {
	upstream := []string{"CertificateRequester", "AlwaysAdmit", "NamespaceAutoProvision", "NamespaceLifecycle", "NamespaceExists",
		"LimitPodHardAntiAffinityTopology",
		"LimitRanger", "ServiceAccount", "NodeRestriction", "TaintNodesByCondition", "AlwaysPullImages", "ImagePolicyWebhook",
		"PodSecurity", "PodNodeSelector",
		"Priority", "DefaultTolerationSeconds", "PodTolerationRestriction", "EventRateLimit", "ExtendedResourceToleration",
		"DefaultStorageClass",
		"StorageObjectInUseProtection", "OwnerReferencesPermissionEnforcement", "PersistentVolumeClaimResize", "RuntimeClass",
		"CertificateApproval",
		"CertificateSigning", "ClusterTrustBundleAttest", "CertificateSubjectRestriction", "DefaultIngressClass",
		"DenyServiceExternalIPs", "PodTopologyLabels", "PodGroupWorkloadExists",
		"NodeDeclaredFeatureValidator", "JobValidation", "PodResizeValidator",
		"MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook", "ResourceQuota",
		"AlwaysDeny"}
	at := 0
	for _, p := range All(admission.Config{}) {
		for at < len(upstream) && upstream[at] != p.Name {
			at++
		}
		if at == len(upstream) {
			t.Fatalf("%s is out of order", p.Name)
		}
	}
}

// TestNamespaceToCome: a create waits a moment for a namespace that somebody else makes at the same time; a dry run does not.
func TestNamespaceToCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		made := func(after time.Duration) *admission.Request {
			return &admission.Request{Op: admission.Create, Kind: core.ConfigMaps, Read: authtest.Of(core.Namespaces),
				Live: func(context.Context, resource.Kind, string, string) (resource.Object, error) {
					if time.Since(began) < after {
						return nil, apierrors.NewNotFound(core.Namespaces.Info().GR(), "late")
					}
					return namespace("late"), nil
				}}
		}
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "late", Name: "x"}}
		if _, err := admit(plugin(t, "NamespaceLifecycle"), made(20*time.Millisecond), cm); err != nil {
			t.Error(err)
		}
		_, err := admit(plugin(t, "NamespaceLifecycle"), made(time.Hour), cm)
		refused(t, err, metav1.StatusReasonNotFound, `namespaces "late" not found`)
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
		dry, asked := made(time.Hour), time.Now()
		dry.DryRun = true
		_, err = admit(plugin(t, "NamespaceLifecycle"), dry, cm)
		refused(t, err, metav1.StatusReasonNotFound, `namespaces "late" not found`)
		if took := time.Since(asked); took != 0 {
			t.Errorf("a dry run waited %v", took)
		}
	})
}

func TestNamespaceLifecycle(t *testing.T) {
	ending := namespace("ending")
	ending.Status.Phase = corev1.NamespaceTerminating
	read := authtest.Of(core.Namespaces, namespace("ns"), ending)
	c := plugin(t, "NamespaceLifecycle")
	in := func(ns string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"}}
	}

	if _, err := admit(c, &admission.Request{Op: admission.Create, Kind: core.ConfigMaps, Read: read}, in("ns")); err != nil {
		t.Error(err)
	}
	_, err := admit(c, &admission.Request{Op: admission.Create, Kind: core.ConfigMaps, Read: read}, in("nope"))
	refused(t, err, metav1.StatusReasonNotFound, `namespaces "nope" not found`)

	_, err = admit(c, &admission.Request{Op: admission.Create, Kind: core.ConfigMaps, Read: read}, in("ending"))
	refused(t, err, metav1.StatusReasonForbidden,
		`configmaps "x" is forbidden: unable to create new content in namespace ending because it is being terminated`)
	var s apierrors.APIStatus
	if !errors.As(err, &s) || s.Status().Details.Causes[0].Type != corev1.NamespaceTerminatingCause ||
		s.Status().Details.Causes[0].Field != "metadata.namespace" {
		t.Errorf("%+v", s)
	}
	if _, err := admit(c, &admission.Request{Op: admission.Update, Kind: core.ConfigMaps, Read: read, Old: in("ending")},
		in("ending")); err != nil {
		t.Error(err)
	}
	fresh := func(context.Context, resource.Kind, string, string) (resource.Object, error) {
		return namespace("nope"), nil
	}
	if _, err := admit(c, &admission.Request{Op: admission.Create, Kind: core.ConfigMaps, Read: read, Live: fresh},
		in("nope")); err != nil {
		t.Errorf("the store was not asked: %v", err)
	}
	for name, want := range map[string]bool{"default": true, "kube-system": true, "kube-public": true, "kube-node-lease": false,
		"x": false} {
		t.Run(name, func(t *testing.T) {
			err := c.Mutate(context.Background(), &admission.Request{Op: admission.Delete, Kind: core.Namespaces, Namespace: name,
				Name: name, Read: read})
			if apierrors.IsForbidden(err) != want {
				t.Errorf("delete %s: %v", name, err)
			}
		})
	}
}

func TestServiceAccountMutation(t *testing.T) {
	no := false
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "default"},
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}}}
	quiet := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "quiet"}, AutomountServiceAccountToken: &no}
	read := authtest.Of(core.ServiceAccounts, sa, quiet)
	c := plugin(t, "ServiceAccount")

	p, err := admit(c, &admission.Request{Op: admission.Create, Kind: core.Pods, Read: read}, simplePod())
	if err != nil {
		t.Fatal(err)
	}
	if p.Spec.ServiceAccountName != "default" || p.Spec.DeprecatedServiceAccount != "default" || len(p.Spec.ImagePullSecrets) != 1 {
		t.Errorf("%+v", p.Spec)
	}
	v, m := p.Spec.Volumes[0], p.Spec.Containers[0].VolumeMounts[0]
	if !strings.HasPrefix(v.Name, "kube-api-access-") || len(v.Name) != len("kube-api-access-")+5 || m.Name != v.Name || !m.ReadOnly ||
		m.MountPath != tokenPath {
		t.Errorf("%+v %+v", v, m)
	}
	if src := v.Projected.Sources; *v.Projected.DefaultMode != 0o644 || *src[0].ServiceAccountToken.ExpirationSeconds != 3607 ||
		src[1].ConfigMap.Name != "kube-root-ca.crt" || src[2].DownwardAPI.Items[0].Path != "namespace" {
		t.Errorf("%+v", v.Projected)
	}
	again, _ := admit(c, &admission.Request{Op: admission.Create, Kind: core.Pods, Read: read}, p)
	if !reflect.DeepEqual(again, p) {
		t.Error("a second pass changes the pod")
	}

	for _, x := range []struct {
		name   string
		change func(p *corev1.Pod)
		mounts int
	}{
		{"pod says no", func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = &no }, 0},
		{"account says no", func(p *corev1.Pod) { p.Spec.ServiceAccountName = "quiet" }, 0},
		{"own mount", func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: tokenPath}}
		}, 1},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := simplePod()
			x.change(p)
			if p, err := admit(c, &admission.Request{Op: admission.Create, Kind: core.Pods, Read: read}, p); err != nil ||
				len(p.Spec.Volumes) != 0 ||
				len(p.Spec.Containers[0].VolumeMounts) != x.mounts {
				t.Errorf("%s: %v %+v", x.name, err, p.Spec)
			}
		})
	}
	p = simplePod()
	p.Spec.ServiceAccountName = "none"
	_, err = admit(c, &admission.Request{Op: admission.Create, Kind: core.Pods, Read: read}, p)
	refused(t, err, metav1.StatusReasonForbidden,
		`pods "p" is forbidden: error looking up service account ns/none: serviceaccount "none" not found`)
	p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} // refused before the pod is validated
	refused(t, accounts{}.mutate(t.Context(), &admission.Request{Op: admission.Create, Kind: core.Pods, Read: read, Object: p}),
		metav1.StatusReasonForbidden, "a mirror pod may not reference service accounts")
}

func TestServiceAccountSecrets(t *testing.T) {
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "default",
		Annotations: map[string]string{enforceMountable: "true"}}, Secrets: []corev1.ObjectReference{{Name: "ok"}}}
	read := authtest.Of(core.ServiceAccounts, sa)
	c := plugin(t, "ServiceAccount")
	use := func(name string) *corev1.Pod {
		p := simplePod()
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "E", ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}}}
		return p
	}
	if _, err := admit(c, &admission.Request{Op: admission.Create, Kind: core.Pods, Read: read}, use("ok")); err != nil {
		t.Error(err)
	}
	_, err := admit(c, &admission.Request{Op: admission.Create, Kind: core.Pods, Read: read}, use("other"))
	refused(t, err, metav1.StatusReasonForbidden,
		`container c with envVar E referencing secret.secretName="other" is not allowed because service account default does not reference `+
			`that secret`)

	mirror := use("ok")
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	_, err = admit(c, &admission.Request{Op: admission.Create, Kind: core.Pods, Read: read}, mirror)
	refused(t, err, metav1.StatusReasonForbidden, "a mirror pod may not reference secrets")
	nameless := simplePod()
	nameless.Annotations, nameless.Spec.ImagePullSecrets = mirror.Annotations, []corev1.LocalObjectReference{{}}
	if _, err := admit(c, &admission.Request{Op: admission.Create, Kind: core.Pods, Read: read}, nameless); err != nil {
		t.Errorf("a reference without a name: %v", err)
	}
}

func TestTolerations(t *testing.T) {
	c := plugin(t, "DefaultTolerationSeconds")
	five := int64(5)
	for _, x := range []struct {
		name string
		have []corev1.Toleration
		want []string // keys
	}{
		{"none", nil, []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}},
		{"own", []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute",
			TolerationSeconds: &five}},
			[]string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}},
		{"all", []corev1.Toleration{{Operator: "Exists"}}, []string{""}},
		{"other effect", []corev1.Toleration{{Operator: "Exists", Effect: "NoSchedule"}},
			[]string{"", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := simplePod()
			p.Spec.Tolerations = x.have
			p, _ = admit(c, &admission.Request{Op: admission.Create, Kind: core.Pods}, p)
			var got []string
			for _, k := range p.Spec.Tolerations {
				got = append(got, k.Key)
			}
			if !reflect.DeepEqual(got, x.want) {
				t.Errorf("%s: %v", x.name, got)
			}
		})
	}
}

func TestPriority(t *testing.T) {
	never := corev1.PreemptNever
	class := func(name string, value int32, def bool) *schedulingv1.PriorityClass {
		return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, GlobalDefault: def}
	}
	polite := class("polite", 5, false)
	polite.PreemptionPolicy = &never
	read := authtest.Of(scheduling.PriorityClasses, class("high", 100, false), polite)
	c := plugin(t, "Priority")
	try := func(name string, given *int32) (*corev1.Pod, error) {
		p := simplePod()
		p.Spec.PriorityClassName, p.Spec.Priority = name, given
		return admit(c, &admission.Request{Op: admission.Create, Kind: core.Pods, Read: read}, p)
	}
	check := func(p *corev1.Pod, err error, name string, value int32, policy corev1.PreemptionPolicy) {
		t.Helper()
		if err != nil || p.Spec.PriorityClassName != name || *p.Spec.Priority != value || *p.Spec.PreemptionPolicy != policy {
			t.Errorf("%v %+v", err, p.Spec)
		}
	}
	p, err := try("", nil)
	check(p, err, "", 0, corev1.PreemptLowerPriority)
	p, err = try("high", nil)
	check(p, err, "high", 100, corev1.PreemptLowerPriority)
	p, err = try("polite", nil)
	check(p, err, "polite", 5, corev1.PreemptNever)
	_, err = try("none", nil)
	refused(t, err, metav1.StatusReasonForbidden, `pods "p" is forbidden: no PriorityClass with name none was found`)
	wrong := int32(7)
	_, err = try("high", &wrong)
	refused(t, err, metav1.StatusReasonForbidden,
		"the integer value of priority (7) must not be provided in pod spec; priority admission controller computed 100")

	authtest.Put(read, scheduling.PriorityClasses, class("def", 77, true))
	p, err = try("", nil)
	check(p, err, "def", 77, corev1.PreemptLowerPriority)
	_, err = admit(c, &admission.Request{Op: admission.Create, Kind: scheduling.PriorityClasses, Read: read}, class("def2", 1, true))
	refused(t, err, metav1.StatusReasonForbidden,
		`priorityclasses.scheduling.k8s.io "def2" is forbidden: PriorityClass def is already marked as default. Only one default can exist`)
	if _, err := admit(c, &admission.Request{Op: admission.Update, Kind: scheduling.PriorityClasses, Read: read}, class("def", 77,
		true)); err != nil {
		t.Error(err)
	}
	old := p
	bare := simplePod()
	p, err = admit(c, &admission.Request{Op: admission.Update, Kind: core.Pods, Read: read, Old: old}, bare)
	if err != nil || *p.Spec.Priority != 77 {
		t.Errorf("lost on update: %v", err)
	}
}

func TestTaintNewNodes(t *testing.T) {
	c := plugin(t, "TaintNodesByCondition")
	n, _ := admit(c, &admission.Request{Op: admission.Create, Kind: core.Nodes}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	if len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Key != corev1.TaintNodeNotReady ||
		n.Spec.Taints[0].Effect != corev1.TaintEffectNoSchedule {
		t.Errorf("%+v", n.Spec)
	}
	if again, _ := admit(c, &admission.Request{Op: admission.Create, Kind: core.Nodes}, n); len(again.Spec.Taints) != 1 {
		t.Error("tainted twice")
	}
}
