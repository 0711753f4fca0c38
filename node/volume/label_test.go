package volume

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/node/selinux"
)

// TestRelabel says whose files the runtime labels, on machines with SELinux and without.
func TestRelabel(t *testing.T) {
	policy, err := selinux.New("system_u:object_r:container_file_t:s0")
	if err != nil {
		t.Fatal(err)
	}
	c := cluster()
	dir := t.TempDir()
	c.server["persistentvolumeclaims/ns/data"] = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{UID: "c1"},
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}
	c.server["persistentvolumes//pv"] = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{UID: "c1"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: dir}}}}
	for name, tt := range map[string]struct {
		volume string
		want   bool
	}{
		"the agent's own":    {`emptyDir: {}`, true},
		"the host's":         {`hostPath: {path: ` + dir + `}`, false},
		"local":              {`persistentVolumeClaim: {claimName: data}`, true},
		"local, to be read":  {`persistentVolumeClaim: {claimName: data, readOnly: true}`, false},
		"nothing of the API": {`downwardAPI: {}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod(t, `{volumes: [{name: v, `+tt.volume+`}], containers: [{name: a, volumeMounts: [{name: v, mountPath: /x}]}]}`)
			m := mounter(t, c)
			for _, m.Labels.policy = range []*selinux.Policy{nil, policy} {
				if _, err := m.Prepare(t.Context(), p); err != nil {
					t.Fatal(err)
				}
				if got, want := m.Labels.Relabel(p, "v"), tt.want && m.Labels.Enabled(); got != want {
					t.Errorf("SELinux %v: %v, want %v", m.Labels.Enabled(), got, want)
				}
			}
		})
	}
	p := pod(t, `{securityContext: {seLinuxOptions: {level: "s0:c1"}}, volumes: [{name: v, csi: {driver: d}}],
		containers: [{name: a, volumeMounts: [{name: v, mountPath: /x}]}]}`)
	m := mounter(t, c)
	m.Labels.policy = policy
	if r := m.Labels.ask(inline(p, &p.Spec.Volumes[0])); !slices.Equal(r.Labels, []string{"system_u:object_r:container_file_t:s0:c1"}) {
		t.Errorf("a driver is asked for %v", r.Labels)
	}
}
