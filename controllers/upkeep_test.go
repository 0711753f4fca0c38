package controllers_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

func TestTTL(t *testing.T) {
	simulate(t, 3, func(c *cluster) {
		c.until("every node has its annotation", func(r resource.Reader) bool {
			n := 0
			for _, node := range resource.List(r, kinds.Nodes, "") {
				if node.Annotations[corev1.ObjectTTLAnnotationKey] == "0" {
					n++
				}
			}
			return n == 3
		})
	})
}

func TestAttributesClassStaysWhileUsed(t *testing.T) {
	simulate(t, 0, func(c *cluster) {
		make1(c, kinds.VolumeAttributesClasses, &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: "gold"},
			DriverName: "d.example.com",
			Parameters: map[string]string{"iops": "9"}})
		gold := "gold"
		claim := make1(c, kinds.PersistentVolumeClaims,
			claimOf("c", func(p *corev1.PersistentVolumeClaim) { p.Spec.VolumeAttributesClassName = &gold }))
		c.until("the class is protected", func(r resource.Reader) bool {
			return len(resource.Get(r, kinds.VolumeAttributesClasses, "", gold).Finalizers) == 1
		})
		if err := c.Delete(c.t.Context(), kinds.VolumeAttributesClasses, "", gold, backgroundly()); err != nil {
			c.t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if resource.Get(c.Read(), kinds.VolumeAttributesClasses, "", gold) == nil {
			c.t.Fatal("a class that a claim uses is gone")
		}
		if err := c.Delete(c.t.Context(), kinds.PersistentVolumeClaims, claim.Namespace, claim.Name, backgroundly()); err != nil {
			c.t.Fatal(err)
		}
		c.until("the class is gone", func(r resource.Reader) bool {
			return resource.Get(r, kinds.VolumeAttributesClasses, "", gold) == nil
		})
	})
}

func TestPodCertificateRequestsGo(t *testing.T) {
	simulate(t, 0, func(c *cluster) {
		_, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			c.t.Fatal(err)
		}
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
		if err != nil {
			c.t.Fatal(err)
		}
		const uid = "01234567-89ab-cdef-0123-456789abcdef"
		make1(c, kinds.PodCertificateRequests, &certificatesv1.PodCertificateRequest{ObjectMeta: meta("r"),
			Spec: certificatesv1.PodCertificateRequestSpec{
				SignerName: "example.com/signer", PodName: "p", PodUID: uid, ServiceAccountName: "s", ServiceAccountUID: uid, NodeName: "n",
				NodeUID:           uid,
				StubPKCS10Request: der}})
		time.Sleep(14 * time.Minute)
		synctest.Wait()
		if resource.Get(c.Read(), kinds.PodCertificateRequests, "default", "r") == nil {
			c.t.Fatal("gone before its time")
		}
		c.until("the request is gone", func(r resource.Reader) bool {
			return resource.Get(r, kinds.PodCertificateRequests, "default", "r") == nil
		})
	})
}

// TestQuarantineOfEachPod: a node that is missed has its time before its pods go, each time that it is missed.
func TestQuarantineOfEachPod(t *testing.T) {
	simulate(t, 0, func(c *cluster) {
		for _, name := range []string{"first", "second"} {
			spec := corev1.PodSpec{NodeName: "none", Containers: []corev1.Container{{Name: "c", Image: "i"}}}
			make1(c, kinds.Pods, &corev1.Pod{ObjectMeta: meta(name), Spec: spec})
			time.Sleep(30 * time.Second)
			synctest.Wait()
			if resource.Get(c.Read(), kinds.Pods, "default", name) == nil {
				c.t.Fatalf("%s is gone before its time", name)
			}
			c.until(name+" is gone", func(r resource.Reader) bool { return resource.Get(r, kinds.Pods, "default", name) == nil })
		}
	})
}

func claimOf(name string, edit func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	p := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": apiresource.MustParse("1Gi")}}}}
	edit(p)
	return p
}

// TestAttach runs a pod with a CSI volume through attaching and detaching; the test plays the driver's attacher.
func TestAttach(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		class := "csi"
		make1(c, kinds.PersistentVolumes, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity: corev1.ResourceList{"storage": apiresource.MustParse("1Gi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d.example.com",
				VolumeHandle: "h"}}}})
		make1(c, kinds.PersistentVolumeClaims, claimOf("c", func(p *corev1.PersistentVolumeClaim) { p.Spec.StorageClassName = &class }))
		node := resource.List(c.Read(), kinds.Nodes, "")[0].Name
		edit(c, kinds.Nodes, "", node, "", func(n *corev1.Node) {
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, "volumes.kubernetes.io/controller-managed-attach-detach", "true")
		})
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}},
				Volumes: []corev1.Volume{{Name: "v",
					VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}}}
		make1(c, kinds.Pods, pod)
		attachments := func(r resource.Reader) []*storagev1.VolumeAttachment {
			return resource.List(r, kinds.VolumeAttachments, "")
		}
		c.until("an attachment is asked for", func(r resource.Reader) bool { return len(attachments(r)) == 1 })
		edit(c, kinds.VolumeAttachments, "", attachments(c.Read())[0].Name, "status",
			func(va *storagev1.VolumeAttachment) { va.Status.Attached = true })
		c.until("the node knows", func(r resource.Reader) bool {
			list := resource.Get(r, kinds.Nodes, "", node).Status.VolumesAttached
			return len(list) == 1 && list[0].Name == "kubernetes.io/csi/d.example.com^h"
		})
		if err := c.Delete(c.t.Context(), kinds.Pods, "default", "p", backgroundly()); err != nil {
			c.t.Fatal(err)
		}
		c.until("it is detached", func(r resource.Reader) bool {
			return len(attachments(r)) == 0 && len(resource.Get(r, kinds.Nodes, "", node).Status.VolumesAttached) == 0
		})
		pod.ResourceVersion, pod.UID = "", ""
		make1(c, kinds.Pods, pod)
		c.until("it is attached again", func(r resource.Reader) bool { return len(attachments(r)) == 1 })
		if err := c.Delete(c.t.Context(), kinds.Nodes, "", node, backgroundly()); err != nil {
			c.t.Fatal(err)
		}
		c.until("it is detached from a node that is gone", func(r resource.Reader) bool { return len(attachments(r)) == 0 })
	})
}

func TestStorageMigration(t *testing.T) {
	simulate(t, 0, func(c *cluster) {
		ask := func(name, group, plural string) {
			make1(c, kinds.StorageVersionMigrations, &storagemigrationv1.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: storagemigrationv1.StorageVersionMigrationSpec{Resource: metav1.GroupResource{Group: group, Resource: plural}}})
		}
		ask("namespaces", "", "namespaces")
		ask("nothing", "example.com", "nothings")
		ended := func(name, condition string) func(resource.Reader) bool {
			return func(r resource.Reader) bool {
				m := resource.Get(r, kinds.StorageVersionMigrations, "", name)
				return apimeta.IsStatusConditionTrue(m.Status.Conditions, condition) && !apimeta.IsStatusConditionTrue(m.Status.Conditions, "Running")
			}
		}
		c.until("the namespaces are written anew", ended("namespaces", "Succeeded"))
		c.until("what is not there is told", ended("nothing", "Failed"))
		for name, want := range map[string]string{
			"namespaces": "Running=False MigrationCompleted: Migration completed; " +
				"Succeeded=True StorageVersionMigrationSucceeded: Migration completed; ",
			"nothing": "Running=False MigrationCompleted: Migration completed; " +
				"Failed=True StorageVersionMigrationFailed: resource does not exist in discovery; ",
		} {
			var got strings.Builder
			for _, x := range resource.Get(c.Read(), kinds.StorageVersionMigrations, "", name).Status.Conditions {
				fmt.Fprintf(&got, "%s=%s %s: %s; ", x.Type, x.Status, x.Reason, x.Message)
			}
			if got.String() != want {
				c.t.Errorf("%s: %s", name, got.String())
			}
		}
	})
}
