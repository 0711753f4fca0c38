package volume

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds/localvolume"
)

// TestClaimKinds has claims to block devices, to volumes of one pod, and to images of local storage.
func TestClaimKinds(t *testing.T) {
	dir, block := t.TempDir(), corev1.PersistentVolumeBlock
	yes, web, now := true, types.UID("web-uid"), metav1.Now()
	local := func(path string, mode *corev1.PersistentVolumeMode) corev1.PersistentVolumeSpec {
		return corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{UID: "c1"}, VolumeMode: mode,
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}}}
	}
	const byClaim, own = `{volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]`, `{volumes: [{name: v, ephemeral: {}}]`
	const device = `, containers: [{name: a, volumeDevices: [{name: v, devicePath: /x}]}]}`
	for _, tt := range []struct {
		name  string
		spec  string
		claim corev1.PersistentVolumeClaim
		pv    corev1.PersistentVolumeSpec
		form  string
		err   string
	}{
		{name: "bound, and its phase follows", spec: byClaim + `}`,
			claim: corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{bindCompleted: "yes"}}},
			pv:    local(dir, nil)},
		{name: "no device", spec: byClaim + device, pv: local(dir, &block), err: "is not a block device"},
		{name: "no device there", spec: byClaim + device, pv: local("/none", &block),
			err: `MapVolume.EvalHostSymlinks failed for volume "pv" : lstat /none: no such file or directory`},
		{name: "a device as a directory", spec: byClaim + `, containers: [{name: a, volumeMounts: [{name: v, mountPath: /x}]}]}`,
			pv:  local(dir, &block),
			err: "volume v has volumeMode Block, but is specified in volumeMounts"},
		{name: "a directory as a device", spec: byClaim + `, initContainers: [{name: a, volumeDevices: [{name: v, devicePath: /x}]}]}`,
			pv:  local(dir, nil),
			err: "volume v has volumeMode Filesystem, but is specified in volumeDevices"},
		{name: "an image that is not mounted", spec: byClaim + `}`, pv: local(dir, nil), form: localvolume.Ext4, err: "is not mounted"},
		{name: "a pod's own", spec: own + `}`,
			claim: corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Pod", Name: "web", UID: web, Controller: &yes}}}}, pv: local(dir, nil)},
		{name: "another pod's own", spec: own + `}`, pv: local(dir, nil), err: "was not created for pod"},
		{name: "going, as soon as its pods are", spec: byClaim + `}`, pv: local(dir, nil),
			claim: corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now, Finalizers: []string{protected}}}},
		{name: "going", spec: byClaim + `}`, pv: local(dir, nil), err: "is being deleted",
			claim: corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now, Finalizers: []string{"x/y"}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := cluster()
			tt.claim.UID, tt.claim.Spec.VolumeName = "c1", "pv"
			if tt.claim.Annotations[bindCompleted] == "" {
				tt.claim.Status.Phase = corev1.ClaimBound
			}
			pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv",
				Annotations: map[string]string{localvolume.Form: tt.form}}, Spec: tt.pv}
			c.server["persistentvolumeclaims/ns/data"], c.server["persistentvolumeclaims/ns/web-v"] = &tt.claim, &tt.claim
			c.server["persistentvolumes//pv"] = pv
			p := pod(t, tt.spec)
			p.UID = web
			paths, err := mounter(t, c).Prepare(t.Context(), p)
			switch {
			case tt.err == "" && (err != nil || paths["v"] != filepath.Clean(dir)):
				t.Errorf("%s: %v %v", tt.name, paths, err)
			case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
				t.Errorf("%s: error %v, want %q", tt.name, err, tt.err)
			}
		})
	}
}

// TestReachable refuses a local volume of another node, though its path exists here, and lets a pod keep one that it has.
func TestReachable(t *testing.T) {
	c := cluster()
	node := c.seen["nodes//n1"].(*corev1.Node)
	c.server["persistentvolumeclaims/ns/data"] = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{UID: "c1"},
		Spec:   corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}
	c.server["persistentvolumes//pv"] = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{UID: "c1"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: t.TempDir()}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "host", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}}}}}}}}
	m := mounter(t, c)
	p := pod(t, `{volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}`)
	for _, step := range []struct{ host, err string }{{"b", "NodeAffinity check failed"}, {"a", ""}, {"b", ""}} {
		t.Run(step.host, func(t *testing.T) {
			node.Labels = map[string]string{"host": step.host}
			_, err := m.Prepare(t.Context(), p)
			if (err == nil) != (step.err == "") || err != nil && !strings.Contains(err.Error(), step.err) {
				t.Errorf("on %s: %v", step.host, err)
			}
		})
	}
}
