package node

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/authtest"
	"github.com/kloop-dev/kloop/kinds/coordination"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/storage"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
)

func meta(ns, name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: ns, Name: name} }

func pod(node, name string, change func(p *corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: meta("ns", name), Spec: corev1.PodSpec{NodeName: node, ServiceAccountName: "sa",
		Containers: []corev1.Container{{Name: "c"}}}}
	change(p)
	return p
}

func volume(s corev1.VolumeSource) func(p *corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: s})
	}
}

func cluster() *authtest.Cluster {
	c := authtest.Of(core.Pods,
		pod("n", "a", volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "by-volume"}})),
		pod("n", "b", func(p *corev1.Pod) {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{ValueFrom: &corev1.EnvVarSource{
				SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "by-env"}}}}}
			p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "by-env"}}}}
			p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "by-pull"}}
		}),
		pod("n", "c", volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}})),
		pod("n", "thief", volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "greed"}})),
		pod("n", "mirror", func(p *corev1.Pod) {
			p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
			p.Spec.ServiceAccountName = "stolen"
		}),
		pod("m", "other", volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "elsewhere"}})))
	authtest.Put(c, core.PersistentVolumeClaims, &corev1.PersistentVolumeClaim{ObjectMeta: meta("ns", "claim"),
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"}}, &corev1.PersistentVolumeClaim{ObjectMeta: meta("ns", "greed"),
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "taken"}})
	authtest.Put(c, core.PersistentVolumes, &corev1.PersistentVolume{ObjectMeta: meta("", "pv"), Spec: corev1.PersistentVolumeSpec{
		ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: "claim"},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			NodeStageSecretRef: &corev1.SecretReference{Namespace: "storage", Name: "stage"}}}}},
		&corev1.PersistentVolume{ObjectMeta: meta("", "taken"), Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Namespace: "bank", Name: "claim"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				NodeStageSecretRef: &corev1.SecretReference{Namespace: "bank", Name: "safe"}}}}})
	plan := map[string]string{wellknown.BGPPlanned: `{"peers":[{"name":"tor"},{"name":"spine","secret":"router"}]}`}
	lease := &coordinationv1.Lease{ObjectMeta: meta(wellknown.AnnounceSpace, wellknown.BGPLease("n"))}
	lease.Annotations = plan
	authtest.Put(c, coordination.Leases, lease)
	return authtest.Put(c, storage.VolumeAttachments,
		&storagev1.VolumeAttachment{ObjectMeta: meta("", "mine"), Spec: storagev1.VolumeAttachmentSpec{NodeName: "n"}},
		&storagev1.VolumeAttachment{ObjectMeta: meta("", "theirs"), Spec: storagev1.VolumeAttachmentSpec{NodeName: "m"}})
}

// ask reads "verb resource[/sub][.group] ns/name [field=value]".
func ask(u *auth.User, line string) *auth.Attributes {
	w := append(strings.Fields(line), "")
	a := &auth.Attributes{User: u, Verb: w[0], FieldSelector: w[3]}
	what, group, _ := strings.Cut(w[1], ".")
	a.Group = group
	a.Resource, a.Subresource, _ = strings.Cut(what, "/")
	a.Namespace, a.Name, _ = strings.Cut(w[2], "/")
	return a
}

var agent = &auth.User{Name: "system:node:n", Groups: []string{auth.GroupNodes, auth.GroupAuthenticated}}

func TestAgents(t *testing.T) {
	c := cluster()
	z := New(func() resource.Reader { return c })
	for _, x := range []struct {
		line string
		why  string // "": allowed
	}{
		{"get secrets ns/by-volume", ""}, {"watch secrets ns/by-env", ""}, {"list secrets ns/by-pull", ""}, {"get secrets storage/stage", ""},
		{"get secrets bank/safe", "no relationship"},
		{"get secrets metallb-system/router", ""}, {"get secrets metallb-system/memberlist", "no relationship"},
		{"get secrets ns/router", "no relationship"}, {"get secrets ns/elsewhere",
			"no relationship found between node 'n' and this object"},
		{"get secrets other/by-volume", "no relationship"}, {"list secrets ns/", "No Object name found"},
		{"list secrets /", "can only read namespaced object of this type"}, {"update secrets ns/by-volume",
			"can only read resources of this type"},
		{"get configmaps ns/by-env", ""}, {"get configmaps ns/by-volume", "no relationship"},
		{"get persistentvolumeclaims ns/claim", ""}, {"patch persistentvolumeclaims/status ns/claim", ""},
		{"list persistentvolumeclaims ns/claim", ""}, {"watch persistentvolumeclaims ns/other", "no relationship"},
		{"list persistentvolumeclaims ns/", "No Object name found"}, {"watch persistentvolumes /pv", "can only get individual resources"},
		{"get persistentvolumes /pv", ""},
		{"get persistentvolumes /x", "no relationship"},
		{"create serviceaccounts/token ns/sa", ""}, {"create serviceaccounts/token ns/other", "no relationship"},
		{"create serviceaccounts/token ns/stolen", "no relationship"}, {"create serviceaccounts/token ns/", "individual service accounts"},
		{"get volumeattachments.storage.k8s.io /mine", ""}, {"get volumeattachments.storage.k8s.io /theirs", "no relationship"},
		{"update leases.coordination.k8s.io kube-node-lease/n", ""}, {"create leases.coordination.k8s.io kube-node-lease/", ""},
		{"update leases.coordination.k8s.io kube-node-lease/m", "same name as the requesting node"},
		{"update leases.coordination.k8s.io metallb-system/l2-192.0.2.1", ""}, {"watch leases.coordination.k8s.io metallb-system/", ""},
		{"create leases.coordination.k8s.io metallb-system/", "can only access leases in"},
		{"get leases.coordination.k8s.io kube-system/n", "can only access leases in"},
		{"get csinodes.storage.k8s.io /n", ""}, {"get csinodes.storage.k8s.io /m", "same name"},
		{"get nodes /n", ""}, {"watch nodes /n", ""}, {"get nodes /m", "only its own Node object"}, {"list nodes /", ""},
		{"watch networkpolicies.networking.k8s.io /", ""}, {"list endpointslices.discovery.k8s.io /", ""},
		{"get servicecidrs.networking.k8s.io /x", ""}, {"get endpointslices.discovery.k8s.io ns/x", "-"}, {"get namespaces /x", "-"},
		{"patch nodes/status /n", ""}, {"create nodes /n", ""}, {"delete nodes /n", "cannot delete"},
		{"list pods /", ""}, {"watch pods / spec.nodeName=n", ""}, {"list pods / spec.nodeName=m", ""},
		{"deletecollection pods /", "cannot deletecollection"},
		{"get pods ns/a", ""}, {"get pods ns/other", "no relationship"}, {"create pods/eviction ns/a", ""}, {"patch pods/status ns/a", ""},
		{"list resourceslices.resource.k8s.io / spec.nodeName=n", ""}, {"list resourceslices.resource.k8s.io /", "field selector"},
		{"create events default/", ""}, {"list services /", ""}, {"get runtimeclasses.node.k8s.io /x", ""},
		{"create subjectaccessreviews.authorization.k8s.io /", ""}, {"delete services ns/x", "-"},
	} {
		t.Run(x.line, func(t *testing.T) {
			d, why, err := z.Authorize(context.Background(), ask(agent, x.line))
			switch {
			case err != nil:
				t.Error(err)
			case (d == auth.Allow) != (x.why == ""):
				t.Errorf("%s: %v %q", x.line, d, why)
			case x.why != "" && x.why != "-" && !strings.Contains(why, x.why):
				t.Errorf("%s: reason %q, want %q", x.line, why, x.why)
			case d == auth.Deny:
				t.Errorf("%s: denied", x.line)
			}
		})
	}
	for _, u := range []*auth.User{{Name: "system:node:n"}, {Name: "bob", Groups: []string{auth.GroupNodes}},
		{Name: "system:node:", Groups: []string{auth.GroupNodes}}} {
		if d, _, _ := z.Authorize(context.Background(), ask(u, "get secrets ns/by-volume")); d != auth.NoOpinion {
			t.Errorf("%s passes for an agent", u.Name)
		}
		if d, _, _ := z.Authorize(context.Background(), ask(u, "list pods /")); d != auth.NoOpinion {
			t.Errorf("%s reads the pods of all nodes", u.Name)
		}
	}
}

// named finds the pods of the one node without looking at their fields, as an index does.
type named struct{ *authtest.Cluster }

func (n named) ByField(k resource.Kind, _, _ string) iter.Seq[resource.Object] { return n.Each(k, "") }

func BenchmarkSecret(b *testing.B) {
	c := &authtest.Cluster{}
	for i := range 110 {
		authtest.Put(c, core.Pods, pod("n", fmt.Sprint("p", i), volume(corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: fmt.Sprint("s", i)}})))
	}
	r := named{c}
	z := New(func() resource.Reader { return r })
	for name, line := range map[string]string{"used": "get secrets ns/s99", "refused": "get secrets ns/none"} {
		b.Run(name, func(b *testing.B) {
			a := ask(agent, line)
			for b.Loop() {
				z.Authorize(context.Background(), a)
			}
		})
	}
}
