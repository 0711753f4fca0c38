package controllers_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

func TestStaleDisruption(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		make1(c, kinds.Pods, &corev1.Pod{ObjectMeta: meta("p"), Spec: template(nil).Spec})
		edit(c, kinds.Pods, "default", "p", "status", func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
				Reason: "EvictionByEvictionAPI", LastTransitionTime: metav1.Now()})
		})
		said := func() corev1.ConditionStatus {
			for _, cond := range resource.Get(c.Read(), kinds.Pods, "default", "p").Status.Conditions {
				if cond.Type == corev1.DisruptionTarget {
					return cond.Status
				}
			}
			return ""
		}
		time.Sleep(100 * time.Second)
		synctest.Wait()
		if got := said(); got != corev1.ConditionTrue {
			t.Fatalf("taken back too soon: %q", got)
		}
		c.until("it is taken back", func(resource.Reader) bool { return said() == corev1.ConditionFalse })
		for _, cond := range resource.Get(c.Read(), kinds.Pods, "default", "p").Status.Conditions {
			if cond.Type == corev1.DisruptionTarget && cond.Reason != "" {
				c.t.Errorf("it still has the reason %s", cond.Reason)
			}
		}
	})
}

func TestClusterRoleAggregation(t *testing.T) {
	simulate(t, 0, func(c *cluster) {
		role := func(name, label, verb string) *rbacv1.ClusterRole {
			return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"to": label}},
				Rules: []rbacv1.PolicyRule{{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{"pods"}}}}
		}
		make1(c, kinds.ClusterRoles, role("a", "sum", "get"))
		make1(c, kinds.ClusterRoles, role("b", "sum", "list"))
		make1(c, kinds.ClusterRoles, role("c", "else", "delete"))
		make1(c, kinds.ClusterRoles, role("same", "sum", "get"))
		make1(c, kinds.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "sum"}, AggregationRule: &rbacv1.AggregationRule{
			ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"to": "sum"}}}}})
		verbs := func(r resource.Reader) (all string) {
			for _, rule := range resource.Get(r, kinds.ClusterRoles, "", "sum").Rules {
				all += rule.Verbs[0] + " "
			}
			return all
		}
		c.until("the rules of two", func(r resource.Reader) bool { return verbs(r) == "get list " })
		c.applied(resource.Get(c.Read(), kinds.ClusterRoles, "", "sum"), "clusterrole-aggregation-controller")
		edit(c, kinds.ClusterRoles, "", "c", "", func(r *rbacv1.ClusterRole) { r.Labels["to"] = "sum" })
		c.until("and of a third", func(r resource.Reader) bool { return verbs(r) == "get list delete " })
		if err := c.Delete(c.t.Context(), kinds.ClusterRoles, "", "b", backgroundly()); err != nil {
			c.t.Fatal(err)
		}
		c.until("but not of one that is gone", func(r resource.Reader) bool { return verbs(r) == "get delete " })
		edit(c, kinds.ClusterRoles, "", "sum", "", func(r *rbacv1.ClusterRole) {
			r.AggregationRule.ClusterRoleSelectors[0].MatchLabels["to"] = "nothing"
		})
		c.until("none, and nobody owns them", func(r resource.Reader) bool {
			sum := resource.Get(r, kinds.ClusterRoles, "", "sum")
			return len(sum.Rules) == 0 && !slices.ContainsFunc(sum.ManagedFields, func(by metav1.ManagedFieldsEntry) bool {
				return by.Manager == "clusterrole-aggregation-controller"
			})
		})
	})
}

func TestProtection(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		class := ""
		make1(c, kinds.PersistentVolumes, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:                      corev1.ResourceList{"storage": apiresource.MustParse("1Gi")},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/v"}}}})
		make1(c, kinds.PersistentVolumeClaims, claimOf("c", func(p *corev1.PersistentVolumeClaim) { p.Spec.StorageClassName = &class }))
		pod := &corev1.Pod{ObjectMeta: meta("p"), Spec: template(nil).Spec}
		pod.Spec.Volumes = []corev1.Volume{{Name: "v",
			VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
		make1(c, kinds.Pods, pod)
		c.until("bound and running", func(r resource.Reader) bool {
			return resource.Get(r, kinds.PersistentVolumes, "", "v").Status.Phase == corev1.VolumeBound &&
				resource.Get(r, kinds.Pods, "default", "p").Status.Phase == corev1.PodRunning
		})
		for _, k := range []resource.Kind{kinds.PersistentVolumeClaims, kinds.PersistentVolumes} {
			ns, name := "default", "c"
			if k == resource.Kind(kinds.PersistentVolumes) {
				ns, name = "", "v"
			}
			if err := c.Delete(c.t.Context(), k, ns, name, backgroundly()); err != nil {
				c.t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if resource.Get(c.Read(), kinds.PersistentVolumeClaims, "default", "c") == nil || resource.Get(c.Read(), kinds.PersistentVolumes,
			"", "v") == nil {
			t.Fatal("a claim that a pod uses, or its volume, is gone")
		}
		if err := c.Delete(c.t.Context(), kinds.Pods, "default", "p", backgroundly()); err != nil {
			c.t.Fatal(err)
		}
		c.until("claim and volume are gone", func(r resource.Reader) bool {
			return resource.Get(r, kinds.PersistentVolumeClaims, "default", "c") == nil && resource.Get(r, kinds.PersistentVolumes, "", "v") == nil
		})
	})
}

// TestVolumeBeforeClaim deletes a volume that a provisioner of the tree made, then its claim: it stays until its policy is
// followed, or changed.
func TestVolumeBeforeClaim(t *testing.T) {
	simulate(t, 0, func(c *cluster) {
		class := ""
		made := metav1.ObjectMeta{Name: "v", Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": "kubernetes.io/x"}}
		make1(c, kinds.PersistentVolumes, &corev1.PersistentVolume{ObjectMeta: made, Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:                      corev1.ResourceList{"storage": apiresource.MustParse("1Gi")},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/v"}}}})
		make1(c, kinds.PersistentVolumeClaims, claimOf("c", func(p *corev1.PersistentVolumeClaim) { p.Spec.StorageClassName = &class }))
		volume := func(r resource.Reader) *corev1.PersistentVolume {
			return resource.Get(r, kinds.PersistentVolumes, "", "v")
		}
		c.until("bound and guarded", func(r resource.Reader) bool {
			return volume(r).Status.Phase == corev1.VolumeBound && slices.Contains(volume(r).Finalizers, "kubernetes.io/pv-controller")
		})
		for _, k := range []struct {
			kind     resource.Kind
			ns, name string
		}{{kinds.PersistentVolumes, "", "v"}, {kinds.PersistentVolumeClaims, "default", "c"}} {
			if err := c.Delete(c.t.Context(), k.kind, k.ns, k.name, backgroundly()); err != nil {
				c.t.Fatal(err)
			}
		}
		c.told("v", "VolumeFailedDelete", "no volume plugin matched name: kubernetes.io/x")
		c.until("it can't be deleted", func(r resource.Reader) bool { return volume(r).Status.Phase == corev1.VolumeFailed })
		edit(c, kinds.PersistentVolumes, "", "v", "", func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		})
		c.until("it is kept, and its object goes", func(r resource.Reader) bool { return volume(r) == nil })
	})
}

// TestLostClaim: a claim whose volume is gone keeps the conditions that others put on it, and is left alone: it is not told of
// whether it is used.
func TestLostClaim(t *testing.T) {
	simulate(t, 0, func(c *cluster) {
		lost := claimOf("c", func(p *corev1.PersistentVolumeClaim) {
			p.Spec.VolumeName, p.Annotations = "gone", map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
		})
		make1(c, kinds.PersistentVolumeClaims, lost)
		get := func(r resource.Reader) *corev1.PersistentVolumeClaim {
			return resource.Get(r, kinds.PersistentVolumeClaims, "default", "c")
		}
		c.until("lost", func(r resource.Reader) bool { return get(r).Status.Phase == corev1.ClaimLost })
		edit(c, kinds.PersistentVolumeClaims, "default", "c", "status", func(p *corev1.PersistentVolumeClaim) {
			p.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: "example.com/Seen", Status: corev1.ConditionTrue}}
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := get(c.Read()).Status; s.Phase != corev1.ClaimLost || len(s.Conditions) != 1 || s.Conditions[0].Type != "example.com/Seen" {
			t.Errorf("the status of a lost claim became %+v", s)
		}
	})
}

// TestUnusedClaim follows a claim that is bound and that a pod comes to, ends with and leaves.
func TestUnusedClaim(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		class := ""
		make1(c, kinds.PersistentVolumeClaims, claimOf("c", func(p *corev1.PersistentVolumeClaim) { p.Spec.StorageClassName = &class }))
		unused := func(want corev1.ConditionStatus) func(resource.Reader) bool {
			return func(r resource.Reader) bool {
				p := resource.Get(r, kinds.PersistentVolumeClaims, "default", "c")
				return slices.ContainsFunc(p.Status.Conditions, func(x corev1.PersistentVolumeClaimCondition) bool {
					return x.Type == corev1.PersistentVolumeClaimUnused && x.Status == want && !x.LastTransitionTime.IsZero()
				})
			}
		}
		c.until("the loops know it", func(r resource.Reader) bool {
			return len(resource.Get(r, kinds.PersistentVolumeClaims, "default", "c").Finalizers) > 0
		})
		synctest.Wait()
		if list := resource.Get(c.Read(), kinds.PersistentVolumeClaims, "default", "c").Status.Conditions; len(list) > 0 {
			c.t.Errorf("a claim that is not bound has %v", list)
		}
		make1(c, kinds.PersistentVolumes, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:    corev1.ResourceList{"storage": apiresource.MustParse("1Gi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d.example.com",
				VolumeHandle: "h"}}}})
		c.until("a new claim is not used", unused(corev1.ConditionTrue))
		for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, ""} {
			pod := &corev1.Pod{ObjectMeta: meta("p"), Spec: template(nil).Spec}
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}} // it uses it without a node as well
			pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
			pod = resource.Clone(make1(c, kinds.Pods, pod))
			c.until("a pod came", unused(corev1.ConditionFalse))
			if phase != "" {
				pod.Status.Phase = phase
				if _, err := client.UpdateStatus(c.t.Context(), c, kinds.Pods, pod); err != nil {
					c.t.Fatal(err)
				}
				c.until("it ended", unused(corev1.ConditionTrue))
			}
			if err := c.Delete(c.t.Context(), kinds.Pods, "default", "p", backgroundly()); err != nil {
				c.t.Fatal(err)
			}
			c.until("it is gone", unused(corev1.ConditionTrue))
		}
	})
}

func TestEphemeralVolume(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		pod := &corev1.Pod{ObjectMeta: meta("p"), Spec: template(nil).Spec}
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
			VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"l": "m"}},
				Spec: claimOf("", func(*corev1.PersistentVolumeClaim) {}).Spec}}}}}
		pod = make1(c, kinds.Pods, pod)
		c.until("the claim is there", func(r resource.Reader) bool {
			pvc := resource.Get(r, kinds.PersistentVolumeClaims, "default", "p-v")
			return pvc != nil && metav1.IsControlledBy(pvc, pod) && pvc.Labels["l"] == "m"
		})
		if err := c.Delete(c.t.Context(), kinds.Pods, "default", "p", backgroundly()); err != nil {
			c.t.Fatal(err)
		}
		c.until("it goes with the pod", func(r resource.Reader) bool {
			return resource.Get(r, kinds.PersistentVolumeClaims, "default", "p-v") == nil
		})
		make1(c, kinds.PersistentVolumeClaims, claimOf("q-v", func(*corev1.PersistentVolumeClaim) {}))
		again := pod.DeepCopy()
		again.ObjectMeta, again.Status = meta("q"), corev1.PodStatus{}
		again.Spec.NodeName = ""
		make1(c, kinds.Pods, again)
		time.Sleep(time.Minute)
		synctest.Wait()
		if pvc := resource.Get(c.Read(), kinds.PersistentVolumeClaims, "default", "q-v"); len(pvc.OwnerReferences) != 0 {
			t.Error("somebody's own claim was taken for the pod's")
		}
	})
}

func TestTTLAfterFinished(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		ttl := int32(60)
		j := &batchv1.Job{ObjectMeta: meta("j"), Spec: batchv1.JobSpec{TTLSecondsAfterFinished: &ttl, Template: template(nil)}}
		j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		make1(c, kinds.Jobs, j)
		keep := j.DeepCopy()
		keep.ObjectMeta, keep.Spec.TTLSecondsAfterFinished = meta("keep"), nil
		make1(c, kinds.Jobs, keep)
		c.until("both are complete", func(r resource.Reader) bool {
			return resource.Get(r, kinds.Jobs, "default", "j").Status.Succeeded+resource.Get(r, kinds.Jobs, "default", "keep").Status.Succeeded == 2
		})
		time.Sleep(50 * time.Second)
		synctest.Wait()
		if resource.Get(c.Read(), kinds.Jobs, "default", "j") == nil {
			t.Fatal("gone before its time")
		}
		c.until("its time has come", func(r resource.Reader) bool { return resource.Get(r, kinds.Jobs, "default", "j") == nil })
		if resource.Get(c.Read(), kinds.Jobs, "default", "keep") == nil {
			t.Error("one without a time is gone as well")
		}
	})
}

func TestMirroring(t *testing.T) {
	simulate(t, 0, func(c *cluster) {
		make1(c, kinds.Services, &corev1.Service{ObjectMeta: meta("own"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})
		make1(c, kinds.Endpoints, &corev1.Endpoints{ObjectMeta: meta("own"),
			Subsets: []corev1.EndpointSubset{{Ports: []corev1.EndpointPort{{Port: 8080}},
				Addresses: []corev1.EndpointAddress{{IP: "192.0.2.1"}}, NotReadyAddresses: []corev1.EndpointAddress{{IP: "2001:db8::1"}}}}})
		mirrors := func(r resource.Reader) (list []*discoveryv1.EndpointSlice) {
			for _, s := range resource.List(r, kinds.EndpointSlices, "default") {
				if s.Labels[discoveryv1.LabelManagedBy] == "endpointslicemirroring-controller.k8s.io" {
					list = append(list, s)
				}
			}
			return list
		}
		c.until("a slice of each family", func(r resource.Reader) bool {
			list := mirrors(r)
			return len(list) == 2 && list[0].AddressType != list[1].AddressType && *list[0].Ports[0].Port == 8080
		})
		edit(c, kinds.Endpoints, "default", "own", "", func(e *corev1.Endpoints) { e.Subsets[0].Addresses[0].IP = "192.0.2.2" })
		c.until("a slice changes, and is as if its name were given", func(r resource.Reader) bool {
			return slices.ContainsFunc(mirrors(r), func(s *discoveryv1.EndpointSlice) bool {
				return s.Endpoints[0].Addresses[0] == "192.0.2.2" && s.GenerateName == ""
			})
		})
		edit(c, kinds.Endpoints, "default", "own", "", func(e *corev1.Endpoints) { e.Subsets[0].Ports[0].Port = 8081 })
		c.until("with other ports it is another", func(r resource.Reader) bool {
			return !slices.ContainsFunc(mirrors(r), func(s *discoveryv1.EndpointSlice) bool {
				return *s.Ports[0].Port != 8081 || s.GenerateName == ""
			})
		})
		edit(c, kinds.Endpoints, "default", "own", "", func(e *corev1.Endpoints) {
			e.Labels = map[string]string{discoveryv1.LabelSkipMirror: "true"}
		})
		c.until("none, when they are not to be mirrored", func(r resource.Reader) bool { return len(mirrors(r)) == 0 })
	})
}

// A pod that was evicted is nobody's endpoint, though it was ready and has an address.
func TestEvictedPodIsNoEndpoint(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		make1(c, kinds.Services, &corev1.Service{ObjectMeta: meta("web"), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Port: 80}}}})
		p := &corev1.Pod{ObjectMeta: meta("p"), Spec: template(nil).Spec}
		p.Labels = map[string]string{"app": "web"}
		make1(c, kinds.Pods, p)
		ends := func(n int) func(r resource.Reader) bool {
			return func(r resource.Reader) bool {
				got := 0
				for _, s := range resource.List(r, kinds.EndpointSlices, "default") {
					got += len(s.Endpoints)
				}
				e := resource.Get(r, kinds.Endpoints, "default", "web")
				return got == n && e != nil && len(e.Subsets) == n
			}
		}
		c.until("it is an endpoint", ends(1))
		edit(c, kinds.Pods, "default", "p", "status", func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted" })
		c.until("it is none", ends(0))
		if p := resource.Get(c.Read(), kinds.Pods, "default", "p"); p == nil || p.Status.PodIP == "" {
			c.t.Errorf("%+v", p)
		}
	})
}

func TestQuotaUsage(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		make1(c, kinds.Pods, &corev1.Pod{ObjectMeta: meta("before"), Spec: template(nil).Spec})
		make1(c, kinds.ResourceQuotas, &corev1.ResourceQuota{ObjectMeta: meta("q"), Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{"pods": apiresource.MustParse("5"), "count/jobs.batch": apiresource.MustParse("3")}}})
		used := func(r resource.Reader, name corev1.ResourceName) int64 {
			q := resource.Get(r, kinds.ResourceQuotas, "default", "q").Status.Used[name]
			return q.Value()
		}
		c.until("what was there is counted", func(r resource.Reader) bool {
			return used(r, "pods") == 1 && len(resource.Get(r, kinds.ResourceQuotas, "default", "q").Status.Hard) == 2
		})
		make1(c, kinds.Pods, &corev1.Pod{ObjectMeta: meta("after"), Spec: template(nil).Spec})
		c.until("what came is counted", func(r resource.Reader) bool { return used(r, "pods") == 2 })
		for _, name := range []string{"before", "after"} {
			if err := c.Delete(c.t.Context(), kinds.Pods, "default", name, backgroundly()); err != nil {
				c.t.Fatal(err)
			}
		}
		c.until("what went is not", func(r resource.Reader) bool { return used(r, "pods") == 0 && used(r, "count/jobs.batch") == 0 })
	})
}

// request makes a certificate request of nobody's.
func request(c *cluster) []byte {
	c.t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		c.t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		c.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func TestCertificateRequestsAreForgotten(t *testing.T) {
	simulate(t, 0, func(c *cluster) {
		csr := make1(c, kinds.CertificateSigningRequests, &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "r"},
			Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: "example.com/s",
				Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}, Request: request(c)}})
		time.Sleep(23 * time.Hour)
		synctest.Wait()
		if resource.Get(c.Read(), kinds.CertificateSigningRequests, "", csr.Name) == nil {
			t.Fatal("one that nobody decided is gone within a day")
		}
		c.until("it is gone after a day", func(r resource.Reader) bool {
			if resource.Get(r, kinds.CertificateSigningRequests, "", csr.Name) == nil {
				return true
			}
			time.Sleep(10 * time.Minute)
			return false
		})
	})
}
