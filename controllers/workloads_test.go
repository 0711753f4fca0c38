package controllers_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/sim"
)

func TestDaemonSet(t *testing.T) {
	simulate(t, 3, func(c *cluster) {
		l := map[string]string{"app": "d"}
		make1(c, kinds.DaemonSets, &appsv1.DaemonSet{ObjectMeta: meta("d"), Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: l}, Template: template(l)}})
		status := func(n, updated int32) func(r resource.Reader) bool {
			return func(r resource.Reader) bool {
				st := resource.Get(r, kinds.DaemonSets, "default", "d").Status
				return st.NumberReady == n && st.DesiredNumberScheduled == n && st.UpdatedNumberScheduled == updated && st.NumberAvailable == n
			}
		}
		c.until("one on each node", status(3, 3))
		if err := sim.Nodes(c.t.Context(), c, 5); err != nil {
			c.t.Fatal(err)
		}
		c.until("and on the new ones", status(5, 5))
		edit(c, kinds.DaemonSets, "default", "d", "", func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.Containers[0].Image = "i:2" })
		c.until("all are new", func(r resource.Reader) bool {
			for _, p := range resource.List(r, kinds.Pods, "default") {
				if p.Spec.Containers[0].Image != "i:2" {
					return false
				}
			}
			return status(5, 5)(r)
		})
		if n := len(resource.List(c.Read(), kinds.ControllerRevisions, "default")); n != 2 {
			c.t.Errorf("%d revisions", n)
		}
		edit(c, kinds.DaemonSets, "default", "d", "", func(d *appsv1.DaemonSet) {
			d.Spec.Template.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": "sim-1"}
		})
		c.until("on one node", func(r resource.Reader) bool {
			return status(1, 1)(r) && len(resource.List(r, kinds.Pods, "default")) == 1
		})
		edit(c, kinds.Nodes, "", "sim-1", "", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}
		})
		c.until("nowhere", func(r resource.Reader) bool {
			return status(0, 0)(r) && len(resource.List(r, kinds.Pods, "default")) == 0
		})
	})
}

func statefulSet(name string, n int32, edit func(*appsv1.StatefulSetSpec)) *appsv1.StatefulSet {
	l := map[string]string{"app": name}
	s := &appsv1.StatefulSet{ObjectMeta: meta(name), Spec: appsv1.StatefulSetSpec{Replicas: &n, ServiceName: "h",
		Selector: &metav1.LabelSelector{MatchLabels: l}, Template: template(l)}}
	if edit != nil {
		edit(&s.Spec)
	}
	return s
}

// disks makes volumes that any claim without a class can have.
func disks(c *cluster, n int) {
	for i := range n {
		make1(c, kinds.PersistentVolumes, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("disk-", i)},
			Spec: corev1.PersistentVolumeSpec{
				AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Capacity:               corev1.ResourceList{"storage": apiresource.MustParse("1Gi")},
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/disk"}}}})
	}
}

func TestStatefulSet(t *testing.T) {
	simulate(t, 2, func(c *cluster) {
		disks(c, 3)
		one, zero := int32(1), int32(0)
		make1(c, kinds.StatefulSets, statefulSet("s", 3, func(s *appsv1.StatefulSetSpec) {
			s.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: &one}
			s.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": apiresource.MustParse("1Gi")}}}}}
		}))
		status := func(ready, current, updated int32) func(r resource.Reader) bool {
			return func(r resource.Reader) bool {
				s := resource.Get(r, kinds.StatefulSets, "default", "s")
				st := s.Status
				return st.Replicas == *s.Spec.Replicas && st.ReadyReplicas == ready && st.CurrentReplicas == current &&
					st.UpdatedReplicas == updated && st.ObservedGeneration == s.Generation
			}
		}
		c.until("three in order", status(3, 3, 3))
		for i, name := range []string{"s-0", "s-1", "s-2"} {
			p := resource.Get(c.Read(), kinds.Pods, "default", name)
			if p.Spec.Hostname != name || p.Spec.Subdomain != "h" || p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName != "data-"+name {
				c.t.Errorf("pod %d: %+v", i, p.Spec)
			}
			if resource.Get(c.Read(), kinds.PersistentVolumeClaims, "default", "data-"+name) == nil {
				c.t.Errorf("%s has no claim", name)
			}
		}
		edit(c, kinds.StatefulSets, "default", "s", "", func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = "i:2" })
		c.until("two are new, one is below the partition", status(3, 1, 2))
		if img := resource.Get(c.Read(), kinds.Pods, "default", "s-0").Spec.Containers[0].Image; img != "i:1" {
			c.t.Errorf("s-0 runs %s", img)
		}
		if err := c.Delete(c.t.Context(), kinds.Pods, "default", "s-0", nil); err != nil {
			c.t.Fatal(err)
		}
		c.until("the one below the partition comes back", status(3, 1, 2))
		if img := resource.Get(c.Read(), kinds.Pods, "default", "s-0").Spec.Containers[0].Image; img != "i:1" {
			c.t.Errorf("s-0 came back with %s", img)
		}
		edit(c, kinds.StatefulSets, "default", "s", "", func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.RollingUpdate.Partition = &zero })
		c.until("all are new", status(3, 3, 3))
		edit(c, kinds.StatefulSets, "default", "s", "", func(s *appsv1.StatefulSet) {
			s.Spec.Replicas = &one
			s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: "Delete",
				WhenScaled: "Delete"}
		})
		c.until("one is left", status(1, 1, 1))
		c.told("s", "SuccessfulUpdate", "Update Pod s-0 in StatefulSet s successful") // its claim has another owner
		c.until("the claims of the others go", func(r resource.Reader) bool {
			for _, p := range resource.List(r, kinds.PersistentVolumeClaims, "default") {
				if p.DeletionTimestamp == nil && p.Name != "data-s-0" {
					return false
				}
			}
			return true
		})
	})
}

func TestDisruptionBudget(t *testing.T) {
	simulate(t, 2, func(c *cluster) {
		one := intstr.FromInt32(1)
		make1(c, kinds.Deployments, deployment("web", 3))
		make1(c, kinds.PodDisruptionBudgets, &policyv1.PodDisruptionBudget{ObjectMeta: meta("b"), Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}})
		status := func(healthy, desired, allowed int32) func(r resource.Reader) bool {
			return func(r resource.Reader) bool {
				st := resource.Get(r, kinds.PodDisruptionBudgets, "default", "b").Status
				return st.CurrentHealthy == healthy && st.DesiredHealthy == desired && st.DisruptionsAllowed == allowed
			}
		}
		c.until("one of three may go", status(3, 2, 1))
		edit(c, kinds.Deployments, "default", "web", "", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(5)) })
		c.until("one of five may go", status(5, 4, 1))
	})
}

func TestRolesAreAggregated(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		role := func(name, verb string) *rbacv1.ClusterRole {
			return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"part": "yes"}},
				Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{verb}}}}
		}
		make1(c, kinds.ClusterRoles, role("p1", "get"))
		make1(c, kinds.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "whole"}, AggregationRule: &rbacv1.AggregationRule{
			ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"part": "yes"}}}}})
		rules := func(n int) func(r resource.Reader) bool {
			return func(r resource.Reader) bool { return len(resource.Get(r, kinds.ClusterRoles, "", "whole").Rules) == n }
		}
		c.until("one part", rules(1))
		make1(c, kinds.ClusterRoles, role("p2", "list"))
		c.until("two parts", rules(2))
		if err := c.Delete(c.t.Context(), kinds.ClusterRoles, "", "p1", nil); err != nil {
			c.t.Fatal(err)
		}
		c.until("one part again", rules(1))
	})
}

func TestClaimsStayWhileUsed(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		disks(c, 1)
		p := &corev1.Pod{ObjectMeta: meta("p"), Spec: template(nil).Spec}
		p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
			VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": apiresource.MustParse("1Gi")}}}}}}}}
		make1(c, kinds.Pods, p)
		claim := func(r resource.Reader) *corev1.PersistentVolumeClaim {
			return resource.Get(r, kinds.PersistentVolumeClaims, "default", "p-scratch")
		}
		c.until("the claim and the pod", func(r resource.Reader) bool {
			return claim(r) != nil && len(claim(r).Finalizers) == 1 && resource.Get(r, kinds.Pods, "default", "p").Status.Phase == corev1.PodRunning
		})
		if err := c.Delete(c.t.Context(), kinds.PersistentVolumeClaims, "default", "p-scratch", nil); err != nil {
			c.t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if claim(c.Read()) == nil {
			c.t.Fatal("the claim went while its pod ran")
		}
		if err := c.Delete(c.t.Context(), kinds.Pods, "default", "p", nil); err != nil {
			c.t.Fatal(err)
		}
		c.until("the claim goes", func(r resource.Reader) bool { return claim(r) == nil })
	})
}

func TestVolumesAreBound(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		class, gold, size := "m", "gold", corev1.ResourceList{"storage": apiresource.MustParse("1Gi")}
		modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		make1(c, kinds.PersistentVolumes, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, AccessModes: modes, Capacity: size, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			VolumeAttributesClassName: &gold, PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "x"}}}})
		make1(c, kinds.PersistentVolumeClaims, &corev1.PersistentVolumeClaim{ObjectMeta: meta("p"), Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, VolumeAttributesClassName: &gold, AccessModes: modes,
			Resources: corev1.VolumeResourceRequirements{Requests: size}}})
		c.until("both are bound", func(r resource.Reader) bool {
			p, v := resource.Get(r, kinds.PersistentVolumeClaims, "default", "p"), resource.Get(r, kinds.PersistentVolumes, "", "v")
			return p.Status.Phase == corev1.ClaimBound && v.Status.Phase == corev1.VolumeBound && p.Spec.VolumeName == "v" &&
				v.Spec.ClaimRef.UID == p.UID && p.Status.CurrentVolumeAttributesClassName != nil && *p.Status.CurrentVolumeAttributesClassName == gold
		})
		edit(c, kinds.PersistentVolumes, "", "v", "status", func(v *corev1.PersistentVolume) { v.Status.Reason = "Mine" })
		if err := c.Delete(c.t.Context(), kinds.PersistentVolumeClaims, "default", "p", nil); err != nil {
			c.t.Fatal(err)
		}
		c.until("the volume is released", func(r resource.Reader) bool {
			return resource.Get(r, kinds.PersistentVolumes, "", "v").Status.Phase == corev1.VolumeReleased
		})
		if reason := resource.Get(c.Read(), kinds.PersistentVolumes, "", "v").Status.Reason; reason != "Mine" {
			t.Errorf("the reason that somebody gave became %q", reason)
		}
	})
}

func TestAutoscalerKeepsBounds(t *testing.T) {
	simulate(t, 2, func(c *cluster) {
		make1(c, kinds.Deployments, deployment("web", 1))
		make1(c, kinds.HorizontalPodAutoscalers, &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: meta("h"),
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment",
					Name: "web"}, MinReplicas: new(int32(2)), MaxReplicas: 5}})
		size := func(n int32) func(r resource.Reader) bool {
			return func(r resource.Reader) bool {
				return *resource.Get(r, kinds.Deployments, "default", "web").Spec.Replicas == n
			}
		}
		c.until("raised", size(2))
		edit(c, kinds.Deployments, "default", "web", "", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(7)) })
		c.until("lowered", size(5))
		web := resource.Get(c.Read(), kinds.Deployments, "default", "web")
		if !slices.ContainsFunc(web.ManagedFields, func(m metav1.ManagedFieldsEntry) bool { return m.Subresource == "scale" }) {
			t.Errorf("it was scaled, but not by its scale: %v", web.ManagedFields)
		}
	})
}

func TestEndpointsAreMirrored(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		make1(c, kinds.Services, &corev1.Service{ObjectMeta: meta("m"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})
		m := meta("m")
		m.Annotations = map[string]string{corev1.EndpointsOverCapacity: "truncated",
			corev1.EndpointsLastChangeTriggerTime: "2026-01-01T00:00:00Z"}
		make1(c, kinds.Endpoints, &corev1.Endpoints{ObjectMeta: m, Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: "10.50.0.1"},
				{IP: "10.50.0.2"}}, NotReadyAddresses: []corev1.EndpointAddress{{IP: "10.50.0.3"}},
			Ports: []corev1.EndpointPort{{Port: 80, Protocol: corev1.ProtocolTCP}}}}})
		count := func(slices, endpoints int) func(r resource.Reader) bool {
			return func(r resource.Reader) bool {
				list := resource.List(r, kinds.EndpointSlices, "default")
				return len(list) == slices && (slices == 0 || len(list[0].Endpoints) == endpoints)
			}
		}
		c.until("a slice of three", count(1, 3))
		got := resource.List(c.Read(), kinds.EndpointSlices, "default")[0].Annotations
		if want := map[string]string{corev1.EndpointsOverCapacity: "truncated"}; !maps.Equal(got, want) {
			c.t.Errorf("the slice has the annotations %v", got)
		}
		edit(c, kinds.Endpoints, "default", "m", "", func(e *corev1.Endpoints) { e.Subsets[0].NotReadyAddresses = nil })
		c.until("a slice of two", count(1, 2))
		if err := c.Delete(c.t.Context(), kinds.Endpoints, "default", "m", nil); err != nil {
			c.t.Fatal(err)
		}
		c.until("no slice", count(0, 0))
	})
}

func TestServiceRanges(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		make1(c, kinds.ServiceCIDRs, &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "more"},
			Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.50.0.0/24"}}})
		make1(c, kinds.IPAddresses, &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "10.50.0.9"}, Spec: networkingv1.IPAddressSpec{
			ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "x"}}})
		ready := func(want metav1.ConditionStatus) func(r resource.Reader) bool {
			return func(r resource.Reader) bool {
				st := resource.Get(r, kinds.ServiceCIDRs, "", "more").Status
				return len(st.Conditions) == 1 && st.Conditions[0].Status == want
			}
		}
		c.until("it is ready", ready(metav1.ConditionTrue))
		if err := c.Delete(c.t.Context(), kinds.ServiceCIDRs, "", "more", nil); err != nil {
			c.t.Fatal(err)
		}
		c.until("it waits for the address", ready(metav1.ConditionFalse))
		if err := c.Delete(c.t.Context(), kinds.IPAddresses, "", "10.50.0.9", nil); err != nil {
			c.t.Fatal(err)
		}
		c.until("it goes", func(r resource.Reader) bool { return resource.Get(r, kinds.ServiceCIDRs, "", "more") == nil })
	})
}

func TestBootstrapTokensExpire(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		token := func(name, expiration string) {
			make1(c, kinds.Secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name},
				Type:       "bootstrap.kubernetes.io/token",
				StringData: map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef", "expiration": expiration}})
		}
		token("bootstrap-token-abcdef", time.Now().Add(time.Minute).Format(time.RFC3339))
		token("forever", "")
		token("garbled", "tomorrow") // nobody takes it
		time.Sleep(30 * time.Second)
		if resource.Get(c.Read(), kinds.Secrets, "kube-system", "bootstrap-token-abcdef") == nil {
			c.t.Error("the token went before its time")
		}
		c.until("the token goes", func(r resource.Reader) bool {
			return resource.Get(r, kinds.Secrets, "kube-system", "bootstrap-token-abcdef") == nil &&
				resource.Get(r, kinds.Secrets, "kube-system", "garbled") == nil
		})
		if resource.Get(c.Read(), kinds.Secrets, "kube-system", "forever") == nil {
			c.t.Error("the token without expiration went too")
		}
	})
}

// Sets that are deleted without their pods and made anew find them, and their revisions, as they left them.
func TestMadeAnewWithoutARollout(t *testing.T) {
	simulate(t, 2, func(c *cluster) {
		l := map[string]string{"app": "d"}
		ds := &appsv1.DaemonSet{ObjectMeta: meta("d"), Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: l},
			Template: template(l)}}
		make1(c, kinds.DaemonSets, ds)
		make1(c, kinds.StatefulSets, statefulSet("s", 2, nil))
		all := func(r resource.Reader) bool {
			d, s := resource.Get(r, kinds.DaemonSets, "default", "d"), resource.Get(r, kinds.StatefulSets, "default", "s")
			return d != nil && s != nil && d.Status.NumberAvailable == 2 && d.Status.UpdatedNumberScheduled == 2 &&
				s.Status.AvailableReplicas == 2 && s.Status.UpdatedReplicas == 2
		}
		c.until("all run", all)
		kept := map[types.UID]bool{}
		note := func(list []metav1.Object) {
			for _, o := range list {
				kept[o.GetUID()] = true
			}
		}
		objects := func() (list []metav1.Object) {
			for _, p := range resource.List(c.Read(), kinds.Pods, "default") {
				list = append(list, p)
			}
			for _, r := range resource.List(c.Read(), kinds.ControllerRevisions, "default") {
				if (r.Labels["controller.kubernetes.io/hash"] != "") != (r.Labels["app"] == "s") {
					c.t.Errorf("%s has the labels %v", r.Name, r.Labels)
				}
				list = append(list, r)
			}
			return list
		}
		note(objects())
		orphan := metav1.DeletePropagationOrphan
		for _, x := range []struct {
			kind resource.Kind
			name string
		}{{kinds.DaemonSets, "d"}, {kinds.StatefulSets, "s"}} {
			if err := c.Delete(c.t.Context(), x.kind, "default", x.name, &metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
				c.t.Fatal(err)
			}
		}
		c.until("the sets are gone", func(r resource.Reader) bool {
			return resource.Get(r, kinds.DaemonSets, "default", "d") == nil && resource.Get(r, kinds.StatefulSets, "default", "s") == nil
		})
		ds.ResourceVersion, ds.UID = "", ""
		make1(c, kinds.DaemonSets, ds)
		make1(c, kinds.StatefulSets, statefulSet("s", 2, nil))
		c.until("all belong to somebody", func(r resource.Reader) bool {
			for _, o := range objects() {
				if metav1.GetControllerOfNoCopy(o) == nil {
					return false
				}
			}
			return all(r)
		})
		time.Sleep(time.Minute)
		for _, o := range objects() {
			if !kept[o.GetUID()] {
				c.t.Errorf("%s is new", o.GetName())
			}
		}
	})
}

// A Deployment whose pods no node takes makes a few of them in ten minutes, not thousands.
func TestRefusedPodsPause(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		edit(c, kinds.Nodes, "", "sim-0", "", func(n *corev1.Node) { n.Spec.Unschedulable = true })
		refusing := &loop.Controller[*corev1.Pod]{Name: "refusing", For: kinds.Pods, Writes: []resource.Kind{kinds.Pods},
			Reconcile: func(ctx context.Context, lc *loop.Ctx, p *corev1.Pod) (time.Duration, error) {
				if p.Status.Phase == corev1.PodFailed || p.DeletionTimestamp != nil {
					return 0, nil
				}
				next := resource.Clone(p)
				next.Status.Phase, next.Status.Reason = corev1.PodFailed, "NodePorts"
				return 0, lc.UpdateStatus(ctx, kinds.Pods, next)
			}}
		ctx, stop := context.WithCancel(c.t.Context())
		done := make(chan error, 1)
		go func() { done <- refusing.Run(ctx, loop.Env{Client: c}) }()
		l := map[string]string{"app": "d"}
		make1(c, kinds.Deployments, &appsv1.Deployment{ObjectMeta: meta("d"), Spec: appsv1.DeploymentSpec{Replicas: new(int32(3)),
			Selector: &metav1.LabelSelector{MatchLabels: l}, Template: template(l)}})
		time.Sleep(10 * time.Minute) // simulated
		if n := len(resource.List(c.Read(), kinds.Pods, "default")); n < 6 || n > 60 {
			c.t.Errorf("%d pods were made", n)
		}
		stop()
		<-done
	})
}

// A Deployment adopts the ReplicaSets that another one left behind, and one that a person made, and makes none beside them.
func TestDeploymentAdopts(t *testing.T) {
	simulate(t, 2, func(c *cluster) {
		l := map[string]string{"app": "d"}
		make1(c, kinds.ReplicaSets, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "by-hand", Namespace: "default", Labels: l},
			Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: l}, Template: template(l)}})
		wish := func(name string) *appsv1.Deployment {
			return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Annotations: map[string]string{"team": name}},
				Spec: appsv1.DeploymentSpec{Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: l}, Template: template(l)}}
		}
		only := func(r resource.Reader) *appsv1.ReplicaSet {
			list := resource.List(r, kinds.ReplicaSets, "default")
			if len(list) != 1 || list[0].Name != "by-hand" {
				c.t.Fatalf("%d sets", len(list))
			}
			return list[0]
		}
		for _, name := range []string{"one", "two"} {
			make1(c, kinds.Deployments, wish(name))
			c.until(name+" has the set", func(r resource.Reader) bool {
				rs, d := only(r), resource.Get(r, kinds.Deployments, "default", name)
				return metav1.IsControlledBy(rs, d) && rs.Annotations["team"] == name && rs.Annotations["deployment.kubernetes.io/revision"] == "1" &&
					d.Annotations["deployment.kubernetes.io/revision"] == "1" && d.Status.AvailableReplicas == 2 && d.Status.CollisionCount == nil
			})
			orphan := metav1.DeletePropagationOrphan
			if err := c.Delete(c.t.Context(), kinds.Deployments, "default", name, &metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
				c.t.Fatal(err)
			}
			c.until(name+" left it", func(r resource.Reader) bool {
				return resource.Get(r, kinds.Deployments, "default", name) == nil && len(only(r).OwnerReferences) == 0
			})
		}
	})
}
