package node

import (
	"slices"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// pins are copies that somebody else keeps.
type pins map[client.Ref][]resource.Object

func (p pins) Keep([]client.Ref) {}

func (p pins) OnChange(func(k resource.Kind, obj resource.Object)) {}

func (p pins) List(ref client.Ref) (list []resource.Object, complete bool) {
	list, complete = p[ref]
	return list, complete
}

// A signer's bundles are found in the state at hand, or among the copies of a node that joined.
func TestBundlesOfSigner(t *testing.T) {
	api := testcluster.Start(t)
	c := &common{cfg: Config{Client: api.As(api.User, "kubelet")}}
	keys, err := pki.Open(pki.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var one resource.Object
	for name, signer := range map[string]string{"e.f:s:1": "e.f/s", "e.f:s:2": "e.f/s", "e.f:t:1": "e.f/t", "plain": ""} {
		t.Run(name, func(t *testing.T) {
			one, err = c.cfg.Client.Create(t.Context(), kinds.ClusterTrustBundles, &certificatesv1.ClusterTrustBundle{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: string(keys.CA.PEM())}})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	for signer, want := range map[string]int{"e.f/s": 2, "e.f/t": 1, "e.f/u": 0} {
		t.Run(signer, func(t *testing.T) {
			if list, complete := c.bundles(signer); len(list) != want || !complete {
				t.Errorf("%s: %d, %v; want %d", signer, len(list), complete, want)
			}
		})
	}
	c.cfg.Pins = pins{bundlesOf("e.f/s"): {one}}
	if list, complete := c.bundles("e.f/s"); len(list) != 1 || !complete {
		t.Errorf("of the copies: %d, %v", len(list), complete)
	}
	if _, complete := c.bundles("e.f/t"); complete {
		t.Error("a set that nobody has read is complete")
	}
}

// What becomes of a pod's claims wakes it; copies of them are not kept.
func TestOwnClaims(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "p"}}
	uses("c")(p)
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "own", VolumeSource: corev1.VolumeSource{
		Ephemeral: &corev1.EphemeralVolumeSource{}}})
	for name, want := range map[string]bool{"c": true, "p-own": true, "other": false} {
		t.Run(name, func(t *testing.T) {
			c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name}}
			ref := client.Ref{Kind: kinds.PersistentVolumeClaims, Namespace: "d", Fields: "metadata.name=" + name}
			if concerns(p, kinds.PersistentVolumeClaims, c) != want || slices.Contains(claimsOf(p), ref) != want {
				t.Errorf("%s: %v", name, claimsOf(p))
			}
		})
	}
}

// What the pod's projected volumes need is kept, and wakes it.
func TestCertified(t *testing.T) {
	name, signer := "one", "e.f/s"
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "p", UID: "u"}}
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: &name}},
			{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{SignerName: &signer}},
			{PodCertificate: &corev1.PodCertificateProjection{}}}}}}}
	simulate(t, func(r *rig) {
		want := []client.Ref{{Kind: kinds.ClusterTrustBundles, Name: "one"}, {Kind: kinds.ClusterTrustBundles, Fields: "spec.signerName=e.f/s"},
			{Kind: kinds.PodCertificateRequests, Fields: "spec.nodeName=n"}}
		got := r.agent.certified(p)
		if len(got) != len(want) {
			t.Fatalf("%v, want %v", got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%v, want %v", got[i], want[i])
			}
		}
	})
	asked := &certificatesv1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "d"},
		Spec: certificatesv1.PodCertificateRequestSpec{PodUID: "u"}}
	foreign := asked.DeepCopy()
	foreign.Spec.PodUID = "other"
	if !concerns(p, kinds.PodCertificateRequests, asked) || concerns(p, kinds.PodCertificateRequests, foreign) {
		t.Error("the answers to its own requests wake a pod, and no others")
	}
}
