package volumebinder

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func volume(name, size string, edit ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
		Spec: corev1.PersistentVolumeSpec{StorageClassName: "c", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity: corev1.ResourceList{"storage": apiresource.MustParse(size)}}}
	for _, e := range edit {
		e(v)
	}
	return v
}

func claimed(ns, name string, uid types.UID) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: ns, Name: name, UID: uid}
	}
}

func claim(edit ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	class := "c"
	p := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": apiresource.MustParse("2Gi")}}}}
	for _, e := range edit {
		e(p)
	}
	return p
}

func TestChoose(t *testing.T) {
	named := func(name string, done bool) func(*corev1.PersistentVolumeClaim) {
		return func(p *corev1.PersistentVolumeClaim) {
			p.Spec.VolumeName = name
			if done {
				p.Annotations = map[string]string{completed: "yes"}
			}
		}
	}
	for _, tt := range []struct {
		name string
		p    *corev1.PersistentVolumeClaim
		all  []*corev1.PersistentVolume
		want string
		v    verdict
	}{
		{"none", claim(), nil, "", missing},
		{"the smallest that is large enough", claim(), []*corev1.PersistentVolume{volume("a", "5Gi"), volume("b", "1Gi"),
			volume("c", "3Gi")}, "c", bind},
		{"one that is meant for it", claim(), []*corev1.PersistentVolume{volume("a", "2Gi"), volume("b", "9Gi", claimed("ns", "p", ""))},
			"b", bind},
		{"another's", claim(), []*corev1.PersistentVolume{volume("a", "2Gi", claimed("ns", "q", "x"))}, "", missing},
		{"another class", claim(), []*corev1.PersistentVolume{volume("a", "2Gi",
			func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "" })}, "", missing},
		{"released", claim(), []*corev1.PersistentVolume{volume("a", "2Gi",
			func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeReleased })}, "", missing},
		{"it names one", claim(named("a", false)), []*corev1.PersistentVolume{volume("a", "3Gi")}, "a", bind},
		{"it names one that is too small", claim(named("a", false)), []*corev1.PersistentVolume{volume("a", "1Gi")}, "a", unfit},
		{"it names one that is meant for it", claim(named("a", false)),
			[]*corev1.PersistentVolume{volume("a", "1Gi", claimed("ns", "p", ""))}, "a", bind},
		{"one that is meant for it, of another class", claim(), []*corev1.PersistentVolume{volume("a", "2Gi", claimed("ns", "p", ""),
			func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "" })}, "a", bind},
		{"that allows less, though larger", claim(), []*corev1.PersistentVolume{volume("a", "2Gi", func(v *corev1.PersistentVolume) {
			v.Spec.AccessModes = append(v.Spec.AccessModes, corev1.ReadOnlyMany)
		}), volume("b", "5Gi")}, "b", bind},
		{"its own is another's", claim(named("a", true)), []*corev1.PersistentVolume{volume("a", "2Gi", claimed("ns", "q", "x"))}, "", misbound},
		{"it names one that is not there", claim(named("x", false)), nil, "", wait},
		{"it names another's", claim(named("a", false)), []*corev1.PersistentVolume{volume("a", "1Gi", claimed("ns", "q", "x"))}, "", taken},
		{"its own", claim(named("a", true)), []*corev1.PersistentVolume{volume("a", "1Gi", claimed("ns", "p", "u"))}, "a", bind},
		{"its own is gone", claim(named("a", true)), nil, "", lost},
		{"its own was made again for whoever has its name", claim(named("a", true)),
			[]*corev1.PersistentVolume{volume("a", "2Gi", claimed("ns", "p", ""))}, "", misbound},
		{"its own was made again for nobody", claim(named("a", true)), []*corev1.PersistentVolume{volume("a", "2Gi")}, "a", bind},
	} {
		t.Run(tt.name, func(t *testing.T) {
			get := func(name string) *corev1.PersistentVolume {
				for _, v := range tt.all {
					if v.Name == name {
						return v
					}
				}
				return nil
			}
			v, verdict := choose(tt.p, false, get, tt.all)
			name := ""
			if v != nil {
				name = v.Name
			}
			if name != tt.want || verdict != tt.v {
				t.Errorf("%s: %q, %d; want %q, %d", tt.name, name, verdict, tt.want, tt.v)
			}
		})
	}
}

// TestWaits has a claim wait for its first consumer: it gets no volume but one that is meant for it.
func TestWaits(t *testing.T) {
	none := func(string) *corev1.PersistentVolume { return nil }
	if v, verdict := choose(claim(), true, none, []*corev1.PersistentVolume{volume("a", "2Gi")}); v != nil || verdict != missing {
		t.Errorf("got %v, %d", v, verdict)
	}
	if v, verdict := choose(claim(), true, none, []*corev1.PersistentVolume{volume("a", "2Gi"),
		volume("b", "2Gi", claimed("ns", "p", "u"))}); verdict != bind || v.Name != "b" {
		t.Errorf("got %v, %d", v, verdict)
	}
}

func TestReclaim(t *testing.T) {
	edit := func(policy corev1.PersistentVolumeReclaimPolicy, by, path string) *corev1.PersistentVolume {
		return volume("a", "1Gi", func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = policy
			if by != "" {
				v.Annotations = map[string]string{provisionedBy: by}
			}
			if path != "" {
				v.Spec.HostPath = &corev1.HostPathVolumeSource{Path: path}
			}
		})
	}
	of := func(v *corev1.PersistentVolume, s corev1.PersistentVolumeSource) *corev1.PersistentVolume {
		v.Spec.PersistentVolumeSource = s
		return v
	}
	for _, tt := range []struct {
		name string
		v    *corev1.PersistentVolume
		want string
	}{
		{"kept", edit("Retain", "", "/x"), " "},
		{"somebody else's to delete", edit("Delete", "x.example", ""), " "},
		{"nobody's to delete", edit("Delete", "", ""),
			`VolumeFailedDelete error getting deleter volume plugin for volume "a": no volume plugin matched`},
		{"a driver's, by hand", of(edit("Delete", "", ""), corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{}}), " "},
		{"a node's", of(edit("Delete", "", ""), corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{}}),
			`VolumeFailedDelete error getting deleter volume plugin for volume "a": no volume plugin matched`},
		{"a server's", of(edit("Delete", "", ""), corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{}}),
			`VolumeFailedDelete error getting deleter volume plugin for volume "a": no deletable volume plugin matched`},
		{"a server's, of old", of(edit("Delete", "kubernetes.io/nfs", ""), corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{}}),
			"VolumeFailedDelete no deletable volume plugin matched"},
		{"a cloud's, of old", edit("Delete", "kubernetes.io/aws-ebs", ""),
			"VolumeFailedDelete no volume plugin matched name: kubernetes.io/aws-ebs"},
		{"a directory, of old", edit("Delete", "kubernetes.io/host-path", "/data/a"),
			"VolumeFailedDelete host_path deleter only supports /tmp/.+ but received provided /data/a"},
		{"a directory", edit("Delete", "", "/data/a"),
			"VolumeFailedDelete host_path deleter only supports /tmp/.+ but received provided /data/a"},
		{"to be emptied", edit("Recycle", "", "/x"), "VolumeFailedRecycle No recycler plugin found for the volume!"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reason, text := reclaim(tt.v)
			if got := reason + " " + text; got != tt.want {
				t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
			}
		})
	}
}

func TestPhase(t *testing.T) {
	for _, tt := range []struct {
		name   string
		v      *corev1.PersistentVolume
		claim  *corev1.PersistentVolumeClaim
		want   corev1.PersistentVolumePhase
		unbind bool
	}{
		{"free", volume("a", "1Gi"), nil, corev1.VolumeAvailable, false},
		{"meant for one", volume("a", "1Gi", claimed("ns", "p", "")), claim(), corev1.VolumeAvailable, false},
		{"bound", volume("a", "1Gi", claimed("ns", "p", "u")), claim(func(p *corev1.PersistentVolumeClaim) { p.Spec.VolumeName = "a" }),
			corev1.VolumeBound, false},
		{"not yet", volume("a", "1Gi", claimed("ns", "p", "u")), claim(), corev1.VolumeAvailable, false},
		{"its claim is gone", volume("a", "1Gi", claimed("ns", "p", "u")), nil, corev1.VolumeReleased, false},
		{"its claim was made anew", volume("a", "1Gi", claimed("ns", "p", "old")), claim(), corev1.VolumeReleased, false},
		{"its claim took another", volume("a", "1Gi", claimed("ns", "p", "u"), func(v *corev1.PersistentVolume) {
			v.Annotations = map[string]string{byController: "yes"}
		}), claim(func(p *corev1.PersistentVolumeClaim) { p.Spec.VolumeName = "b" }), corev1.VolumeAvailable, true},
		{"its claim took another, and it was meant for it", volume("a", "1Gi", claimed("ns", "p", "u")),
			claim(func(p *corev1.PersistentVolumeClaim) { p.Spec.VolumeName = "b" }), corev1.VolumeAvailable, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if phase, unbind := phaseOf(tt.v, tt.claim); phase != tt.want || unbind != tt.unbind {
				t.Errorf("%s: %s, unbind %t", tt.name, phase, unbind)
			}
		})
	}
}

// TestGuarded puts a finalizer on volumes that a provisioner of the tree made, as long as they are to be deleted with their claim.
func TestGuarded(t *testing.T) {
	for _, tt := range []struct {
		name, by string
		policy   corev1.PersistentVolumeReclaimPolicy
		gone     bool
		have     []string
		want     string // "-": nothing is written
	}{
		{"of the tree", "kubernetes.io/x", corev1.PersistentVolumeReclaimDelete, false, []string{"a"}, "[a kubernetes.io/pv-controller]"},
		{"has it", "kubernetes.io/x", corev1.PersistentVolumeReclaimDelete, false, []string{treeFinalizer}, "-"},
		{"to be kept from now on", "kubernetes.io/x", corev1.PersistentVolumeReclaimRetain, true, []string{treeFinalizer, "a"}, "[a]"},
		{"no driver's any more", "kubernetes.io/x", corev1.PersistentVolumeReclaimDelete, true, []string{externalFinalizer}, "[]"},
		{"goes already", "kubernetes.io/x", corev1.PersistentVolumeReclaimDelete, true, []string{"a"}, "-"},
		{"a driver's by now", "kubernetes.io/aws-ebs", corev1.PersistentVolumeReclaimDelete, false,
			[]string{treeFinalizer, externalFinalizer}, "[external-provisioner.volume.kubernetes.io/finalizer]"},
		{"a driver's", "x.example", corev1.PersistentVolumeReclaimDelete, false, []string{externalFinalizer}, "-"},
		{"somebody's", "", corev1.PersistentVolumeReclaimDelete, false, nil, "-"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := volume("v", "1Gi", func(v *corev1.PersistentVolume) {
				v.Annotations, v.Finalizers = map[string]string{provisionedBy: tt.by}, tt.have
				v.Spec.PersistentVolumeReclaimPolicy = tt.policy
				if tt.gone {
					v.DeletionTimestamp = &metav1.Time{}
				}
			})
			got := "-"
			if next := guarded(v); next != nil {
				got = fmt.Sprint(next.Finalizers)
			}
			if got != tt.want {
				t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
			}
		})
	}
}
