package plugins

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/authtest"
	"github.com/kloop-dev/kloop/kinds/coordination"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/dra"
	"github.com/kloop-dev/kloop/resource"
)

func TestNodeRestriction(t *testing.T) {
	yes := true
	self := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}}
	change := func(f func(n *corev1.Node)) *corev1.Node { n := self.DeepCopy(); f(n); return n }
	mine, other := simplePod(), simplePod()
	mine.Spec.NodeName, mine.UID = "n", "1"
	mine.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}},
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "vault"}}}}}}}
	other.Name, other.Spec.NodeName, other.UID = "other", "m", "2"
	mirror := simplePod()
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	mirror.Spec.NodeName = "n"
	mirror.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u", Controller: &yes}}
	withMirror := func(f func(p *corev1.Pod)) *corev1.Pod { p := mirror.DeepCopy(); f(p); return p }
	relabelled := mine.DeepCopy()
	relabelled.Labels = map[string]string{"a": "b"}
	lease := func(ns, name string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	}
	request := func(pod, uid string, audiences ...string) *authenticationv1.TokenRequest {
		return &authenticationv1.TokenRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"},
			Spec: authenticationv1.TokenRequestSpec{Audiences: audiences,
				BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod, UID: types.UID(uid)}}}
	}
	slice := func(node *string) *resourcev1.ResourceSlice {
		return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"},
			Spec: resourcev1.ResourceSliceSpec{NodeName: node, Driver: "d.example.com"}}
	}
	claiming := mine.DeepCopy()
	claiming.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "c"}
	read := authtest.Of(core.Nodes, self)
	authtest.Put(read, core.Pods, mine, other)
	c := admission.Chain{{Name: "NodeRestriction", Mutate: nodeRestriction{signerGate{}}.admit}}
	for _, x := range []struct {
		name string
		r    admission.Request
		obj  resource.Object
		text string
	}{
		{"own label", admission.Request{Op: admission.Update, Kind: core.Nodes, Old: self},
			change(func(n *corev1.Node) { n.Labels = map[string]string{"x": "y"} }), ""},
		{"own role label", admission.Request{Op: admission.Update, Kind: core.Nodes, Old: self},
			change(func(n *corev1.Node) { n.Labels = map[string]string{"node.kubernetes.io/x": "y"} }), ""},
		{"restricted label", admission.Request{Op: admission.Update, Kind: core.Nodes, Old: self},
			change(func(n *corev1.Node) { n.Labels = map[string]string{"node-restriction.kubernetes.io/z": "y"} }),
			`nodes "n" is forbidden: is not allowed to modify labels: node-restriction.kubernetes.io/z`},
		{"devices of its own", admission.Request{Op: admission.Create, Kind: dra.ResourceSlices}, slice(new("n")), ""},
		{"devices of another", admission.Request{Op: admission.Create, Kind: dra.ResourceSlices}, slice(new("m")),
			"can only create ResourceSlice with the same NodeName as the requesting node"},
		{"devices of no node", admission.Request{Op: admission.Create, Kind: dra.ResourceSlices}, slice(nil),
			"can only create ResourceSlice"},
		{"change of its devices", admission.Request{Op: admission.Update, Kind: dra.ResourceSlices, Old: slice(new("n"))},
			slice(new("n")), ""},
		{"change of another's devices", admission.Request{Op: admission.Update, Kind: dra.ResourceSlices, Old: slice(new("m"))},
			slice(new("m")),
			"can only update ResourceSlice"},
		{"end of its devices", admission.Request{Op: admission.Delete, Kind: dra.ResourceSlices, Old: slice(new("n"))}, slice(new("n")),
			""},
		{"end of another's devices", admission.Request{Op: admission.Delete, Kind: dra.ResourceSlices, Old: slice(new("m"))},
			slice(new("m")),
			"can only delete ResourceSlice"},
		{"restricted label on create", admission.Request{Op: admission.Create, Kind: core.Nodes},
			change(func(n *corev1.Node) { n.Labels = map[string]string{"foo.k8s.io/z": "y"} }),
			`node "n" is not allowed to set the following labels: foo.k8s.io/z`},
		{"config source", admission.Request{Op: admission.Update, Kind: core.Nodes, Old: self},
			change(func(n *corev1.Node) { n.Spec.ConfigSource = &corev1.NodeConfigSource{} }),
			`node "n" is not allowed to update configSource to a new non-nil configSource`},
		{"config source on create", admission.Request{Op: admission.Create, Kind: core.Nodes},
			change(func(n *corev1.Node) { n.Spec.ConfigSource = &corev1.NodeConfigSource{} }), "with a non-nil configSource"},
		{"taints", admission.Request{Op: admission.Update, Kind: core.Nodes, Old: self},
			change(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "a"}} }), `node "n" is not allowed to modify taints`},
		{"other node", admission.Request{Op: admission.Update, Kind: core.Nodes, Old: self, Name: "m"},
			change(func(n *corev1.Node) { n.Name = "m" }),
			`node "n" is not allowed to modify node "m"`},
		{"ordinary pod", admission.Request{Op: admission.Create, Kind: core.Pods}, mine,
			`pod does not have "kubernetes.io/config.mirror" annotation, node "n" can only create mirror pods`},
		{"mirror pod", admission.Request{Op: admission.Create, Kind: core.Pods}, mirror, ""},
		{"mirror pod elsewhere", admission.Request{Op: admission.Create, Kind: core.Pods},
			withMirror(func(p *corev1.Pod) { p.Spec.NodeName = "m" }),
			"spec.nodeName set to itself"},
		{"mirror pod, no owner", admission.Request{Op: admission.Create, Kind: core.Pods},
			withMirror(func(p *corev1.Pod) { p.OwnerReferences = nil }),
			"owner reference set to itself"},
		{"mirror pod, other node's", admission.Request{Op: admission.Create, Kind: core.Pods},
			withMirror(func(p *corev1.Pod) { p.OwnerReferences[0].UID = "v" }), "UID mismatch"},
		{"mirror pod with a secret", admission.Request{Op: admission.Create, Kind: core.Pods}, withMirror(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v",
				VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}}}
		}), `node "n" can not create pods that reference secrets`},
		{"mirror pod with an account", admission.Request{Op: admission.Create, Kind: core.Pods},
			withMirror(func(p *corev1.Pod) { p.Spec.ServiceAccountName = "x" }), "reference a service account"},
		{"status", admission.Request{Op: admission.Update, Kind: core.Pods, Sub: "status", Old: mine}, mine, ""},
		{"status of another's", admission.Request{Op: admission.Update, Kind: core.Pods, Sub: "status", Old: other}, other,
			"can only update pod status for pods with spec.nodeName set to itself"},
		{"labels by status", admission.Request{Op: admission.Update, Kind: core.Pods, Sub: "status", Old: mine}, relabelled,
			"cannot update labels through pod status"},
		{"extended claims by status", admission.Request{Op: admission.Update, Kind: core.Pods, Sub: "status", Old: mine}, claiming,
			"cannot update extended resource claim status"},
		{"evict another's", admission.Request{Op: admission.Create, Kind: core.Pods, Sub: "eviction", Name: "other"}, other,
			"can only evict pods"},
		{"spec", admission.Request{Op: admission.Update, Kind: core.Pods, Old: mine}, mine, `unexpected operation "UPDATE"`},
		{"lease", admission.Request{Op: admission.Create, Kind: coordination.Leases}, lease("kube-node-lease", "n"), ""},
		{"lease of a name to be generated", admission.Request{Op: admission.Create, Kind: coordination.Leases},
			&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-node-lease", GenerateName: "n"}},
			"same name as the requesting node"},
		{"other lease", admission.Request{Op: admission.Update, Kind: coordination.Leases}, lease("kube-node-lease", "m"),
			"same name as the requesting node"},
		{"lock", admission.Request{Op: admission.Update, Kind: coordination.Leases}, lease("kube-system", "n"),
			`can only access leases in the "kube-node-lease" system namespace`},
		{"token", admission.Request{Op: admission.Create, Kind: core.ServiceAccounts, Sub: "token", Name: "default"}, request("p", "1"),
			""},
		{"token for an audience", admission.Request{Op: admission.Create, Kind: core.ServiceAccounts, Sub: "token", Name: "default"},
			request("p", "1", "vault"), ""},
		{"token for nobody", admission.Request{Op: admission.Create, Kind: core.ServiceAccounts, Sub: "token", Name: "default"},
			request("p", "1", "x"),
			"system:node:n is not authorized to request tokens for audience \"x\""},
		{"token of another's", admission.Request{Op: admission.Create, Kind: core.ServiceAccounts, Sub: "token", Name: "default"},
			request("other", "2"),
			"scheduled on a different node"},
		{"token, no uid", admission.Request{Op: admission.Create, Kind: core.ServiceAccounts, Sub: "token", Name: "default"},
			request("p", ""), "without a uid"},
	} {
		t.Run(x.name, func(t *testing.T) {
			r := x.r
			r.Read, r.User = read, &auth.User{Name: "system:node:n", Groups: []string{auth.GroupNodes}}
			_, err := admit(c, &r, x.obj)
			if x.text == "" && err != nil {
				t.Error(err)
			} else if x.text != "" {
				refused(t, err, metav1.StatusReasonForbidden, x.text)
			}
			r.User = &auth.User{Name: "somebody"}
			if _, err := admit(c, &r, x.obj); err != nil {
				t.Errorf("held against others: %v", err)
			}
		})
	}
}

// No field of a mirror pod may name a secret: the node would get to read it.
func TestMirrorPodsNameNoSecrets(t *testing.T) {
	ref := &corev1.LocalObjectReference{Name: "s"}
	env := []corev1.EnvVar{{Name: "E",
		ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: *ref, Key: "k"}}}}
	from := []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: *ref}}}
	specs := []corev1.PodSpec{
		{ImagePullSecrets: []corev1.LocalObjectReference{*ref}},
		{Containers: []corev1.Container{{Env: env}}}, {InitContainers: []corev1.Container{{EnvFrom: from}}},
		{EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Env: env}}}},
	}
	for _, v := range []corev1.VolumeSource{
		{Secret: &corev1.SecretVolumeSource{SecretName: "s"}},
		{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{LocalObjectReference: *ref}}}}},
		{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: ref}}, {AzureFile: &corev1.AzureFileVolumeSource{SecretName: "s"}},
		{CephFS: &corev1.CephFSVolumeSource{SecretRef: ref}}, {Cinder: &corev1.CinderVolumeSource{SecretRef: ref}},
		{FlexVolume: &corev1.FlexVolumeSource{SecretRef: ref}}, {RBD: &corev1.RBDVolumeSource{SecretRef: ref}},
		{ScaleIO: &corev1.ScaleIOVolumeSource{SecretRef: ref}}, {ISCSI: &corev1.ISCSIVolumeSource{SecretRef: ref}},
		{StorageOS: &corev1.StorageOSVolumeSource{SecretRef: ref}},
	} {
		specs = append(specs, corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: v}}})
	}
	for _, spec := range specs {
		if got := referenced(&corev1.Pod{Spec: spec}); got != "secrets" {
			t.Errorf("%+v: %q", spec, got)
		}
		if checkMirror(&admission.Request{Kind: core.Pods}, &corev1.Pod{Spec: spec}) == nil {
			t.Errorf("a mirror pod of the server's own making may name a secret: %+v", spec)
		}
	}
	harmless := corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Env: []corev1.EnvVar{{Name: "SECRET", Value: "x"}}}},
		Volumes: []corev1.Volume{
			{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}, {Name: "w",
				VolumeSource: corev1.VolumeSource{CephFS: &corev1.CephFSVolumeSource{SecretFile: "/etc/x"}}}}}
	if got := referenced(&corev1.Pod{Spec: harmless}); got != "" {
		t.Errorf("nothing is named: %q", got)
	}
}
