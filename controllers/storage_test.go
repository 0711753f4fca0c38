package controllers_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

const drivenClass = "csi"

// drivenVolume makes a volume of the driver d.example.com.
func drivenVolume(c *cluster, name string, edits ...func(*corev1.PersistentVolume)) {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		StorageClassName: drivenClass, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Capacity: corev1.ResourceList{"storage": apiresource.MustParse("1Gi")}, PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: "d.example.com", VolumeHandle: "h-" + name}}}}
	for _, edit := range edits {
		edit(v)
	}
	make1(c, kinds.PersistentVolumes, v)
}

func ofClass(p *corev1.PersistentVolumeClaim) { p.Spec.StorageClassName = new(drivenClass) }

// withClaim is a pod that has the claim, or one of its own if that has no name.
func withClaim(name, claim string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: meta(name), Spec: template(nil).Spec}
	own := &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claimOf("", ofClass).Spec}}
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Ephemeral: own}}}
	if claim != "" {
		p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
	}
	return p
}

// TestAttachedWhereAsked attaches what drivers want attached, of claims of pods' own as well, and detaches also what they no longer do.
func TestAttachedWhereAsked(t *testing.T) {
	for _, tt := range []struct {
		name    string
		asked   *bool // nil: the driver has no description
		own     bool
		then    *bool // its description is another one, once the pod is there
		attachs bool
	}{
		{name: "no description", attachs: true},
		{name: "to be attached", asked: new(true), attachs: true},
		{name: "not to be attached", asked: new(bool)},
		{name: "a pod's own, to be attached", asked: new(true), own: true, attachs: true},
		{name: "a pod's own, not to be attached", asked: new(bool), own: true},
		{name: "no longer to be attached", asked: new(true), then: new(bool), attachs: true},
		{name: "described later", then: new(bool), attachs: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			simulate(t, 1, func(c *cluster) {
				describe := func(asked *bool) {
					_ = c.Delete(c.t.Context(), kinds.CSIDrivers, "", "d.example.com", nil) // need not be there
					if asked != nil {
						make1(c, kinds.CSIDrivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "d.example.com"},
							Spec: storagev1.CSIDriverSpec{AttachRequired: asked}})
					}
				}
				describe(tt.asked)
				node := resource.List(c.Read(), kinds.Nodes, "")[0].Name
				edit(c, kinds.Nodes, "", node, "", func(n *corev1.Node) {
					metav1.SetMetaDataAnnotation(&n.ObjectMeta, "volumes.kubernetes.io/controller-managed-attach-detach", "true")
				})
				drivenVolume(c, "v")
				claim := "c"
				if tt.own {
					claim = ""
				} else {
					make1(c, kinds.PersistentVolumeClaims, claimOf(claim, ofClass))
				}
				make1(c, kinds.Pods, withClaim("p", claim))
				c.until("the volume is bound", func(r resource.Reader) bool {
					return resource.Get(r, kinds.PersistentVolumes, "", "v").Status.Phase == corev1.VolumeBound
				})
				time.Sleep(time.Minute)
				synctest.Wait()
				list := resource.List(c.Read(), kinds.VolumeAttachments, "")
				if len(list) > 0 != tt.attachs {
					c.t.Fatalf("attachments: %v", list)
				}
				if tt.then != nil {
					describe(tt.then)
				}
				if err := c.Delete(c.t.Context(), kinds.Pods, "default", "p", backgroundly()); err != nil {
					c.t.Fatal(err)
				}
				c.until("nothing is attached", func(r resource.Reader) bool {
					return len(resource.List(r, kinds.VolumeAttachments, "")) == 0 &&
						len(resource.Get(r, kinds.Nodes, "", node).Status.VolumesAttached) == 0
				})
			})
		})
	}
}

// TestPolicyOfVolumes follows volumes of an external driver to the end of their claims: the policy that holds by then is what the driver's
// provisioner goes by, which this loop leaves them to, also when the volume was deleted first.
func TestPolicyOfVolumes(t *testing.T) {
	const guard = "external-provisioner.volume.kubernetes.io/finalizer" // the provisioner puts it on what it is to delete
	keep, drop := corev1.PersistentVolumeReclaimRetain, corev1.PersistentVolumeReclaimDelete
	for _, made := range []bool{false, true} {
		for _, first := range []bool{false, true} {
			for _, policy := range [][2]corev1.PersistentVolumeReclaimPolicy{{keep, keep}, {drop, drop}, {keep, drop}, {drop, keep}} {
				t.Run(fmt.Sprint("made ", made, " volume first ", first, policy), func(t *testing.T) {
					simulate(t, 0, func(c *cluster) {
						drivenVolume(c, "v", func(v *corev1.PersistentVolume) {
							v.Spec.PersistentVolumeReclaimPolicy = policy[0]
							if made {
								v.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": "d.example.com"}
							}
						})
						make1(c, kinds.PersistentVolumeClaims, claimOf("c", ofClass))
						endOfClaim(c, policy[1], first, made, guard)
					})
				})
			}
		}
	}
}

func endOfClaim(c *cluster, policy corev1.PersistentVolumeReclaimPolicy, first, made bool, guard string) {
	volume := func(r resource.Reader) *corev1.PersistentVolume {
		return resource.Get(r, kinds.PersistentVolumes, "", "v")
	}
	remove := func(k resource.Kind, ns, name string) {
		c.t.Helper()
		if err := c.Delete(c.t.Context(), k, ns, name, backgroundly()); err != nil {
			c.t.Fatal(err)
		}
	}
	c.until("bound", func(r resource.Reader) bool { return volume(r).Status.Phase == corev1.VolumeBound })
	guards := made && policy == corev1.PersistentVolumeReclaimDelete
	edit(c, kinds.PersistentVolumes, "", "v", "", func(v *corev1.PersistentVolume) {
		if v.Spec.PersistentVolumeReclaimPolicy = policy; guards {
			v.Finalizers = append(v.Finalizers, guard)
		}
	})
	if first {
		remove(kinds.PersistentVolumes, "", "v")
		time.Sleep(time.Minute)
		synctest.Wait()
		if v := volume(c.Read()); v == nil || v.Status.Phase != corev1.VolumeBound {
			c.t.Fatalf("with its claim: %v", v)
		}
	}
	remove(kinds.PersistentVolumeClaims, "default", "c")
	if first && !guards {
		c.until("its object goes", func(r resource.Reader) bool { return volume(r) == nil })
		return
	}
	const want = corev1.VolumeReleased // also one that nobody made: the driver's are left to it
	c.until("it has no claim", func(r resource.Reader) bool { return volume(r).Status.Phase == want })
	time.Sleep(time.Minute)
	synctest.Wait()
	v := volume(c.Read())
	if v == nil || v.Status.Phase != want || slices.Contains(v.Finalizers, guard) != guards {
		c.t.Fatalf("it became %+v", v)
	}
	if guards { // the provisioner's part
		edit(c, kinds.PersistentVolumes, "", "v", "", func(v *corev1.PersistentVolume) {
			v.Finalizers = slices.DeleteFunc(v.Finalizers, func(f string) bool { return f == guard })
		})
	}
	if !first {
		remove(kinds.PersistentVolumes, "", "v")
	}
	c.until("it is gone", func(r resource.Reader) bool { return volume(r) == nil })
}

// TestVolumesAndClaims has as many of both as it says: each volume has one claim and each claim one volume, as far as there are enough, and
// what is over gets its own as soon as there is one.
func TestVolumesAndClaims(t *testing.T) {
	for _, n := range [][2]int{{2, 4}, {3, 3}, {4, 2}} {
		t.Run(fmt.Sprintf("%d volumes, %d claims", n[0], n[1]), func(t *testing.T) {
			simulate(t, 0, func(c *cluster) {
				for i := range n[0] {
					drivenVolume(c, fmt.Sprint("v", i), func(v *corev1.PersistentVolume) {
						v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
					})
				}
				for i := range n[1] {
					make1(c, kinds.PersistentVolumeClaims, claimOf(fmt.Sprint("c", i), ofClass))
				}
				pairs := func(r resource.Reader) (n int) {
					for _, p := range resource.List(r, kinds.PersistentVolumeClaims, "default") {
						v := resource.Get(r, kinds.PersistentVolumes, "", p.Spec.VolumeName)
						if p.Status.Phase == corev1.ClaimBound && v.Status.Phase == corev1.VolumeBound && v.Spec.ClaimRef.UID == p.UID {
							n++
						}
					}
					return n
				}
				c.until("they have each other", func(r resource.Reader) bool { return pairs(r) == min(n[0], n[1]) })
				for i := n[0]; i < n[1]; i++ {
					drivenVolume(c, fmt.Sprint("v", i))
				}
				for i := n[1]; i < n[0]; i++ {
					make1(c, kinds.PersistentVolumeClaims, claimOf(fmt.Sprint("c", i), ofClass))
				}
				c.until("all have", func(r resource.Reader) bool { return pairs(r) == max(n[0], n[1]) })
				if err := c.Delete(c.t.Context(), kinds.PersistentVolumeClaims, "default", "c0", backgroundly()); err != nil {
					c.t.Fatal(err)
				}
				c.until("its volume is released", func(r resource.Reader) bool {
					return slices.ContainsFunc(resource.List(r, kinds.PersistentVolumes, ""), func(v *corev1.PersistentVolume) bool {
						return v.Status.Phase == corev1.VolumeReleased && v.Status.LastPhaseTransitionTime != nil
					})
				})
			})
		})
	}
}

// TestDefaultClass gives claims that name no class the default one, when there comes to be one, and none that name "".
func TestDefaultClass(t *testing.T) {
	simulate(t, 0, func(c *cluster) {
		make1(c, kinds.StorageClasses, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: drivenClass}, Provisioner: "d.example.com"})
		isDefault := func(is string) {
			edit(c, kinds.StorageClasses, "", drivenClass, "", func(s *storagev1.StorageClass) {
				if delete(s.Annotations, "storageclass.kubernetes.io/is-default-class"); is != "" {
					metav1.SetMetaDataAnnotation(&s.ObjectMeta, "storageclass.kubernetes.io/is-default-class", is)
				}
			})
		}
		class := func(name string) string {
			p := resource.Get(c.Read(), kinds.PersistentVolumeClaims, "default", name)
			if p.Spec.StorageClassName == nil {
				return "unset"
			}
			return *p.Spec.StorageClassName
		}
		make1(c, kinds.PersistentVolumeClaims, claimOf("none", func(p *corev1.PersistentVolumeClaim) { p.Spec.StorageClassName = new("") }))
		for i, is := range []string{"false", ""} {
			name := fmt.Sprint("c", i)
			isDefault(is)
			make1(c, kinds.PersistentVolumeClaims, claimOf(name, func(*corev1.PersistentVolumeClaim) {}))
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := class(name); got != "unset" {
				c.t.Errorf("without a default class the claim has %q", got)
			}
			isDefault("true")
			c.until("it is the default", func(resource.Reader) bool { return class(name) == drivenClass && class("none") == "" })
			c.until("somebody is asked for a volume", func(r resource.Reader) bool {
				p := resource.Get(r, kinds.PersistentVolumeClaims, "default", name)
				return p.Annotations["volume.kubernetes.io/storage-provisioner"] == "d.example.com"
			})
		}
	})
}
