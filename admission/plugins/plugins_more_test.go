package plugins

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"reflect"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/authtest"
	"github.com/kloop-dev/kloop/kinds/apps"
	"github.com/kloop-dev/kloop/kinds/certificates"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/networking"
	"github.com/kloop-dev/kloop/kinds/node"
	"github.com/kloop-dev/kloop/kinds/storage"
)

func TestLimitRanger(t *testing.T) {
	lr := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "l"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
			{Type: corev1.LimitTypeContainer, Default: amounts("memory", "256Mi"), DefaultRequest: amounts("memory", "128Mi"),
				Min: amounts("cpu", "100m"), Max: amounts("cpu", "2"), MaxLimitRequestRatio: amounts("cpu", "4")}}}}
	read := authtest.Of(core.LimitRanges, lr)
	c := plugin(t, "LimitRanger")
	for _, x := range []struct {
		name             string
		requests, limits corev1.ResourceList
		text             string
	}{
		{"inside", amounts("cpu", "1"), amounts("cpu", "2"), ""},
		{"under", amounts("cpu", "50m"), amounts("cpu", "100m"),
			`pods "p" is forbidden: minimum cpu usage per Container is 100m, but request is 50m`},
		{"over", amounts("cpu", "1"), amounts("cpu", "3"), "maximum cpu usage per Container is 2, but limit is 3"},
		{"unlimited", amounts("cpu", "1"), nil, "maximum cpu usage per Container is 2.  No limit is specified"},
		{"ratio", amounts("cpu", "200m"), amounts("cpu", "2"),
			"cpu max limit to request ratio per Container is 4, but provided ratio is 10.000000"},
		{"nothing", nil, nil,
			"[minimum cpu usage per Container is 100m.  No request is specified, maximum cpu usage per Container is 2.  No limit is specified, " +
				"cpu max limit to request ratio per Container is 4, but no request is specified or request is 0]"},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := simplePod()
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: x.requests, Limits: x.limits}
			old := simplePod()
			old.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: amounts("cpu", "1"), Limits: amounts("cpu", "1")}
			for sub, want := range map[string]bool{"resize": x.text != "", "": false} { // an update of anything else is none of it
				_, err := admit(c, &admission.Request{Op: admission.Update, Sub: sub, Kind: core.Pods, Read: read, Old: old}, p.DeepCopy())
				if (err != nil) != want {
					t.Errorf("update of %q: %v", sub, err)
				}
			}
			p, err := admit(c, &admission.Request{Op: admission.Create, Kind: core.Pods, Read: read}, p)
			if x.text != "" {
				refused(t, err, metav1.StatusReasonForbidden, x.text)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			res := p.Spec.Containers[0].Resources
			if m, n := res.Requests["memory"], res.Limits["memory"]; m.String() != "128Mi" || n.String() != "256Mi" {
				t.Errorf("%+v", res)
			}
			if got := p.Annotations[limitRangerAnnotation]; got != "LimitRanger plugin set: memory request for container c; memory limit for "+
				"container c" {
				t.Error(got)
			}
		})
	}
}

func TestPodSecurity(t *testing.T) {
	strict := namespace("ns")
	strict.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/warn": "restricted"}
	read := authtest.Of(core.Namespaces, strict)
	c := plugin(t, "PodSecurity")
	var warned []string
	ask := func(op admission.Op) *admission.Request {
		warned = nil
		return &admission.Request{Op: op, Kind: core.Pods, Read: read, Warn: func(s string) { warned = append(warned, s) }}
	}
	if _, err := admit(c, ask(admission.Create), simplePod()); err != nil || len(warned) != 1 ||
		!strings.HasPrefix(warned[0],
			`would violate PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "c" must set`) {
		t.Errorf("%v %q", err, warned)
	}
	yes := true
	bad := simplePod()
	bad.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
	_, err := admit(c, ask(admission.Create), bad)
	refused(t, err, metav1.StatusReasonForbidden,
		`pods "p" is forbidden: violates PodSecurity "baseline:latest": privileged (container "c" must not set securityContext.privileged=true)`)

	r := ask(admission.Update)
	r.Old = bad
	if _, err := admit(c, r, bad); err != nil || len(warned) != 0 {
		t.Errorf("a pod that is there already: %v", err)
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d"},
		Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: bad.Spec}}}
	r = ask(admission.Create)
	r.Kind = apps.Deployments
	if _, err := admit(c, r, d); err != nil || len(warned) != 1 {
		t.Errorf("%v %q", err, warned)
	}

	odd := strict.DeepCopy()
	odd.Labels["pod-security.kubernetes.io/enforce"] = "odd"
	r = ask(admission.Create)
	r.Kind = core.Namespaces
	_, err = admit(c, r, odd)
	refused(t, err, metav1.StatusReasonInvalid, `metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "odd"`)

	open := namespace("ns")
	authtest.Put(read, core.Pods, bad)
	r = ask(admission.Update)
	r.Kind, r.Old = core.Namespaces, open
	if _, err := admit(c, r, strict); err != nil || !reflect.DeepEqual(warned, []string{
		`existing pods in namespace "ns" violate the new PodSecurity enforce level "baseline:latest"`, "p: privileged"}) {
		t.Errorf("%v %q", err, warned)
	}
}

func TestPodSecurityExemptions(t *testing.T) {
	read := authtest.Of(core.Namespaces, namespace("ns"), namespace("free"))
	yes, fast := true, "fast"
	for _, c := range []struct {
		name, user, ns, class, noted string
	}{
		{name: "nobody", user: "somebody", ns: "ns"},
		{name: "a user", user: "root", ns: "ns", noted: "user"},
		{name: "a namespace", user: "somebody", ns: "free", noted: "namespace"},
		{name: "a runtime class", user: "somebody", ns: "ns", class: fast, noted: "runtimeClass"},
	} {
		t.Run(c.name, func(t *testing.T) {
			chain := admission.Chain{{Name: "PodSecurity",
				Validate: newPodSecurity(admission.PodSecurity{Defaults: map[string]string{"pod-security.kubernetes.io/enforce": "baseline"},
					Users: []string{"root"}, Namespaces: []string{"free"}, RuntimeClasses: []string{fast}}).validate}}
			bad := simplePod()
			bad.Namespace = c.ns
			bad.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
			if c.class != "" {
				bad.Spec.RuntimeClassName = &c.class
			}
			noted := ""
			_, err := admit(chain, &admission.Request{Op: admission.Create, Kind: core.Pods, Read: read, User: &auth.User{Name: c.user},
				Annotate: func(key, value string) {
					if key == "pod-security.kubernetes.io/exempt" {
						noted = value
					}
				}}, bad)
			if (err == nil) != (c.noted != "") || noted != c.noted {
				t.Errorf("%s: %v, noted %q", c.name, err, noted)
			}
		})
	}
}

// TestPodSecurityTellsLevel: the audit of a pod tells by which level it was judged, also where that allows everything.
func TestPodSecurityTellsLevel(t *testing.T) {
	noted := ""
	_, err := admit(plugin(t, "PodSecurity"), &admission.Request{Op: admission.Create, Kind: core.Pods,
		Read: authtest.Of(core.Namespaces, namespace("ns")), Annotate: func(key, value string) { noted += key + "=" + value }}, simplePod())
	if err != nil || noted != "pod-security.kubernetes.io/enforce-policy=privileged:latest" {
		t.Errorf("%v, noted %q", err, noted)
	}
}

// TestPodSecurityOwnUsers: root of a pod with users of its own is nobody on the machine.
func TestPodSecurityOwnUsers(t *testing.T) {
	chain := admission.Chain{{Name: "PodSecurity",
		Validate: newPodSecurity(admission.PodSecurity{
			Defaults: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}).validate}}
	for _, own := range []bool{false, true} {
		p := simplePod()
		p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: new(bool),
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: "RuntimeDefault"}}
		host := !own
		p.Spec.HostUsers = &host
		_, err := admit(chain, &admission.Request{Op: admission.Create, Kind: core.Pods, Read: authtest.Of(core.Namespaces,
			namespace("ns"))}, p)
		if (err == nil) != own {
			t.Errorf("own users %t: %v", own, err)
		}
	}
}

func TestStorage(t *testing.T) {
	class := func(name string, age int, def, grows bool) *storagev1.StorageClass {
		c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(int64(age), 0)},
			AllowVolumeExpansion: &grows}
		if def {
			c.Annotations = map[string]string{defaultStorage: "true"}
		}
		return c
	}
	read := authtest.Of(storage.StorageClasses, class("plain", 9, false, true), class("old", 1, true, false), class("new", 2, true, true))
	claim := func(size string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"},
			Spec: corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: amounts("storage", size)}}}
	}
	c := Default(admission.Config{})
	got, err := admit(plugin(t, "DefaultStorageClass"), &admission.Request{Op: admission.Create, Kind: core.PersistentVolumeClaims,
		Read: read}, claim("1Gi"))
	if err != nil || got.Spec.StorageClassName == nil || *got.Spec.StorageClassName != "new" {
		t.Errorf("%v %+v", err, got.Spec)
	}
	none := ""
	bare := claim("1Gi")
	bare.Spec.StorageClassName = &none
	if bare, _ = admit(plugin(t, "DefaultStorageClass"), &admission.Request{Op: admission.Create, Kind: core.PersistentVolumeClaims,
		Read: read},
		bare); *bare.Spec.StorageClassName != "" {
		t.Error("a claim that wants no class got one")
	}
	got, _ = admit(plugin(t, "StorageObjectInUseProtection"), &admission.Request{Op: admission.Create,
		Kind: core.PersistentVolumeClaims, Read: read}, got)
	if !reflect.DeepEqual(got.Finalizers, []string{"kubernetes.io/pvc-protection"}) {
		t.Error(got.Finalizers)
	}
	_ = c

	resize := plugin(t, "PersistentVolumeClaimResize")
	for _, x := range []struct {
		name, class, to string
		phase           corev1.PersistentVolumeClaimPhase
		text            string
	}{
		{"grows", "new", "2Gi", corev1.ClaimBound, ""}, {"same", "old", "1Gi", corev1.ClaimBound, ""},
		{"pending", "new", "2Gi", corev1.ClaimPending, "Only bound persistent volume claims can be expanded"},
		{"cannot", "old", "2Gi", corev1.ClaimBound, "only dynamically provisioned pvc can be resized"},
		{"no class", "", "2Gi", corev1.ClaimBound, "only dynamically provisioned pvc can be resized"},
	} {
		t.Run(x.name, func(t *testing.T) {
			old, next := claim("1Gi"), claim(x.to)
			old.Spec.StorageClassName, next.Spec.StorageClassName, old.Status.Phase = &x.class, &x.class, x.phase
			_, err := admit(resize, &admission.Request{Op: admission.Update, Kind: core.PersistentVolumeClaims, Read: read, Old: old}, next)
			if x.text == "" && err != nil {
				t.Errorf("%s: %v", x.name, err)
			} else if x.text != "" {
				refused(t, err, metav1.StatusReasonForbidden, x.text)
			}
		})
	}
}

func TestIngressClass(t *testing.T) {
	c := plugin(t, "DefaultIngressClass")
	def := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "ic",
		Annotations: map[string]string{"ingressclass.kubernetes.io/is-default-class": "true"}}}
	read := authtest.Of(networking.IngressClasses, def)
	in := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "i"}}
	if got, _ := admit(c, &admission.Request{Op: admission.Create, Kind: networking.Ingresses, Read: read},
		in); got.Spec.IngressClassName == nil ||
		*got.Spec.IngressClassName != "ic" {
		t.Errorf("%+v", got.Spec)
	}
	in.Annotations = map[string]string{"kubernetes.io/ingress.class": "x"}
	if got, _ := admit(c, &admission.Request{Op: admission.Create, Kind: networking.Ingresses, Read: read},
		in); got.Spec.IngressClassName != nil {
		t.Error("the annotation did not win")
	}
	in.Annotations = nil
	class := func(name string, age int) *networkingv1.IngressClass {
		d := def.DeepCopy()
		d.Name, d.CreationTimestamp = name, metav1.Unix(int64(1000-age), 0)
		return d
	}
	for want, list := range map[string][]*networkingv1.IngressClass{"": nil, "new": {class("a", 5), class("new", 1), class("z", 9)},
		"low": {class("mid", 5), class("low", 5), class("z", 9)}} {
		read := authtest.Of(networking.IngressClasses, list...)
		got, _ := admit(c, &admission.Request{Op: admission.Create, Kind: networking.Ingresses, Read: read}, in.DeepCopy())
		if name := got.Spec.IngressClassName; (name == nil) != (want == "") || name != nil && *name != want {
			t.Errorf("of %d default classes %v, want %q", len(list), name, want)
		}
	}
}

func TestRuntimeClass(t *testing.T) {
	rc := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "vm"}, Overhead: &nodev1.Overhead{PodFixed: amounts("cpu", "100m")},
		Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{"vm": "yes"}, Tolerations: []corev1.Toleration{{Key: "vm"}}}}
	read := authtest.Of(node.RuntimeClasses, rc)
	c := plugin(t, "RuntimeClass")
	try := func(name string, change func(p *corev1.Pod)) (*corev1.Pod, error) {
		p := simplePod()
		if name != "" {
			p.Spec.RuntimeClassName = &name
		}
		change(p)
		return admit(c, &admission.Request{Op: admission.Create, Kind: core.Pods, Read: read}, p)
	}
	nothing := func(*corev1.Pod) {}
	p, err := try("vm", nothing)
	if q := p.Spec.Overhead["cpu"]; err != nil || q.String() != "100m" || p.Spec.NodeSelector["vm"] != "yes" ||
		len(p.Spec.Tolerations) != 1 {
		t.Errorf("%v %+v", err, p.Spec)
	}
	_, err = try("none", nothing)
	refused(t, err, metav1.StatusReasonForbidden, `pods "p" is forbidden: pod rejected: RuntimeClass "none" not found`)
	if _, err = try("a/b", nothing); err == nil || err.Error() != `invalid resource name "a/b": [may not contain '/']` {
		t.Errorf("a path for a name: %v", err)
	}
	_, err = try("vm", func(p *corev1.Pod) { p.Spec.Overhead = amounts("cpu", "1") })
	refused(t, err, metav1.StatusReasonForbidden, overheadDiffers)
	_, err = try("", func(p *corev1.Pod) { p.Spec.Overhead = amounts("cpu", "1") })
	refused(t, err, metav1.StatusReasonForbidden, "Pod Overhead set without corresponding RuntimeClass defined Overhead")
	_, err = try("vm", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"vm": "no"} })
	refused(t, err, metav1.StatusReasonForbidden,
		"conflict: runtimeClass.scheduling.nodeSelector[vm] = yes; pod.spec.nodeSelector[vm] = no")
}

// only the named signer's verbs are allowed.
type signerGate struct{ verb, name string }

func (g signerGate) Authorize(_ context.Context, a *auth.Attributes) (auth.Decision, string, error) {
	if a.Resource == "signers" && a.Verb == g.verb && a.Name == g.name {
		return auth.Allow, "", nil
	}
	return auth.NoOpinion, "", nil
}

func signerPlugin(t *testing.T, g signerGate, name string) admission.Chain {
	for _, p := range Default(admission.Config{Authorize: g}) {
		if p.Name == name {
			return only(p)
		}
	}
	t.Fatal(name)
	return nil
}

func TestCertificates(t *testing.T) {
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	request := func(signer string, groups ...string) *certificatesv1.CertificateSigningRequest {
		der, err := x509.CreateCertificateRequest(rand.Reader,
			&x509.CertificateRequest{Subject: pkix.Name{CommonName: "x", Organization: groups}}, key)
		if err != nil {
			t.Fatal(err)
		}
		return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "c"},
			Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: signer,
				Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})}}
	}
	csrs := certificates.CertificateSigningRequests
	subject := plugin(t, "CertificateSubjectRestriction")
	_, err := admit(subject, &admission.Request{Op: admission.Create, Kind: csrs}, request(certificatesv1.KubeAPIServerClientSignerName,
		"system:masters"))
	refused(t, err, metav1.StatusReasonForbidden,
		"use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed")
	if _, err := admit(subject, &admission.Request{Op: admission.Create, Kind: csrs}, request("example.com/s",
		"system:masters")); err != nil {
		t.Error(err)
	}

	forged := request("example.com/s")
	forged.Spec.Username, forged.Spec.Extra = "root", map[string]certificatesv1.ExtraValue{"a": {"b"}}
	got, err := admit(plugin(t, "CertificateRequester"), &admission.Request{Op: admission.Create, Kind: csrs,
		User: &auth.User{Name: "eve", UID: "1", Groups: []string{"g"}}}, forged)
	if s := got.Spec; err != nil || s.Username != "eve" || s.UID != "1" || s.Groups[0] != "g" || s.Extra != nil {
		t.Errorf("%v %+v", err, got.Spec)
	}

	old := request("example.com/s")
	for _, c := range []struct {
		name string
		gate signerGate
		ok   bool
	}{
		{"approves this signer", signerGate{"approve", "example.com/s"}, true},
		{"approves all signers of the domain",
			signerGate{"approve", "example.com/*"}, true},
		{"approves another signer", signerGate{"approve", "example.com/t"}, false},
		{"may only sign", signerGate{"sign", "example.com/s"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := admit(signerPlugin(t, c.gate, "CertificateApproval"), &admission.Request{Op: admission.Update, Kind: csrs,
				Sub: "approval", Old: old}, old)
			if c.ok && err != nil {
				t.Errorf("%v: %v", c.gate, err)
			} else if !c.ok {
				refused(t, err, metav1.StatusReasonForbidden, `user not permitted to approve requests with signerName "example.com/s"`)
			}
		})
	}
	issued := old.DeepCopy()
	issued.Status.Certificate = []byte("x")
	_, err = admit(signerPlugin(t, signerGate{}, "CertificateSigning"), &admission.Request{Op: admission.Update, Kind: csrs,
		Sub: "status", Old: old}, issued)
	refused(t, err, metav1.StatusReasonForbidden, `user not permitted to sign requests with signerName "example.com/s"`)
	if _, err := admit(signerPlugin(t, signerGate{}, "CertificateSigning"), &admission.Request{Op: admission.Update, Kind: csrs,
		Sub: "status",
		Old: issued}, issued); err != nil {
		t.Error(err)
	}
	bundle := &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: "b"},
		Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: "example.com/s"}}
	_, err = admit(signerPlugin(t, signerGate{}, "ClusterTrustBundleAttest"),
		&admission.Request{Op: admission.Create, Kind: certificates.ClusterTrustBundles}, bundle)
	refused(t, err, metav1.StatusReasonForbidden, `user not permitted to attest for signerName "example.com/s"`)
	if _, err := admit(signerPlugin(t, signerGate{"attest", "example.com/s"}, "ClusterTrustBundleAttest"),
		&admission.Request{Op: admission.Create, Kind: certificates.ClusterTrustBundles}, bundle); err != nil {
		t.Error(err)
	}
}

func TestTopologyLabels(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"topology.kubernetes.io/zone": "z", "other": "x"}}}
	b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
	got, err := admit(plugin(t, "PodTopologyLabels"), &admission.Request{Op: admission.Create, Kind: core.Pods, Sub: "binding",
		Read: authtest.Of(core.Nodes, n)}, b)
	if err != nil || !reflect.DeepEqual(got.Labels, map[string]string{"topology.kubernetes.io/zone": "z"}) {
		t.Errorf("%v %v", err, got.Labels)
	}
}

func BenchmarkPodCreate(b *testing.B) {
	read := authtest.Of(core.Namespaces, namespace("ns"))
	authtest.Put(read, core.ServiceAccounts, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "default"}})
	c := Default(admission.Config{Now: time.Now})
	for b.Loop() {
		if _, err := admit(c, &admission.Request{Op: admission.Create, Kind: core.Pods, Read: read}, simplePod()); err != nil {
			b.Fatal(err)
		}
	}
}
