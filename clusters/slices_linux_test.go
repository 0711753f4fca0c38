package clusters

import "testing"

func TestPodOf(t *testing.T) {
	for group, want := range map[string]string{"pod1-2": "1-2", "kubepods-burstable-pod1_2.slice": "1-2", "kubepods-pod1_2.slice": "1-2",
		"kloop-kubepods-besteffort-pod1_2.slice": "1-2", "kubepods.slice": "", "kubepods": "", "cri-containerd-1.scope": "", "my-pods": ""} {
		if uid, ok := podOf(group); uid != want && ok || ok != (want != "") {
			t.Errorf("%s: %q, %v", group, uid, ok)
		}
	}
}
