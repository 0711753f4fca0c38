package controllers_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// What somebody's webhook keeps from being deleted keeps nothing else: neither in its namespace, nor on its node, nor in its set.
func TestOneRefusalStopsNobodyElse(t *testing.T) {
	gone := func(ns string, names ...string) func(r resource.Reader) bool {
		return func(r resource.Reader) bool {
			for _, name := range names {
				if resource.Get(r, kinds.Pods, ns, name) != nil {
					return false
				}
			}
			return resource.Get(r, kinds.Pods, ns, "kept") != nil
		}
	}
	pod := func(c *cluster, ns, name, node string, edit func(*corev1.Pod)) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: template(nil).Spec}
		p.Spec.NodeName = node
		if edit != nil {
			edit(p)
		}
		make1(c, kinds.Pods, p)
	}
	t.Run("namespace", func(t *testing.T) {
		simulate(t, 1, func(c *cluster) {
			make1(c, kinds.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
			pod(c, "x", "kept", "", nil)
			pod(c, "x", "later", "", nil)
			if err := c.Delete(c.t.Context(), kinds.Namespaces, "", "x", nil); err != nil {
				c.t.Fatal(err)
			}
			c.until("the other pod goes", gone("x", "later"))
		})
	})
	t.Run("tainted node", func(t *testing.T) {
		simulate(t, 1, func(c *cluster) {
			pod(c, "default", "kept", "sim-0", nil)
			pod(c, "default", "later", "sim-0", nil)
			edit(c, kinds.Nodes, "", "sim-0", "", func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}
			})
			c.until("the other pod goes", gone("default", "later"))
		})
	})
	t.Run("lost node", func(t *testing.T) {
		simulate(t, 0, func(c *cluster) {
			pod(c, "default", "kept", "none", nil)
			pod(c, "default", "later", "none", nil)
			c.until("the other pod goes", gone("default", "later"))
		})
	})
	t.Run("smaller set", func(t *testing.T) {
		simulate(t, 1, func(c *cluster) {
			l := map[string]string{"app": "r"}
			for cost, name := range []string{"kept", "later-1", "later-2"} { // in this order they go
				pod(c, "default", name, "sim-0", func(p *corev1.Pod) {
					p.Labels, p.Annotations = l, map[string]string{corev1.PodDeletionCost: fmt.Sprint(cost)}
				})
			}
			c.until("they run", func(r resource.Reader) bool { return ready(r, "app", "r") == 3 })
			make1(c, kinds.ReplicaSets, &appsv1.ReplicaSet{ObjectMeta: meta("r"), Spec: appsv1.ReplicaSetSpec{Replicas: new(int32),
				Selector: &metav1.LabelSelector{MatchLabels: l}, Template: template(l)}})
			c.until("the others go", gone("default", "later-1", "later-2"))
		})
	})
}

// A deployment that stays in a namespace that ends asks for no set again and again.
func TestDeploymentOfAnEndingNamespaceRests(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		make1(c, kinds.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
		d := deployment("kept", 1)
		d.Namespace = "x"
		make1(c, kinds.Deployments, d)
		c.until("its set", func(r resource.Reader) bool { return len(resource.List(r, kinds.ReplicaSets, "x")) == 1 })
		edit(c, kinds.ReplicaSets, "x", resource.List(c.Read(), kinds.ReplicaSets, "x")[0].Name, "", func(rs *appsv1.ReplicaSet) {
			rs.Labels = nil // nobody's any more: the next is to be made
			rs.OwnerReferences = nil
			rs.Finalizers = nil
		})
		if err := c.Delete(c.t.Context(), kinds.Namespaces, "", "x", nil); err != nil {
			c.t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		before := c.creates.Load()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := c.creates.Load() - before; n > 100 {
			c.t.Errorf("%d requests to make something within a minute", n)
		}
		if resource.Get(c.Read(), kinds.Deployments, "x", "kept") == nil || c.refusals.Load() == 0 {
			c.t.Error("the deployment went")
		}
	})
}

// Pods that an earlier job of the name has left, and those of a job whose pods bear no label of its name, can go.
func TestJobLeavesNoPodBehind(t *testing.T) {
	t.Run("made anew at once", func(t *testing.T) {
		simulate(t, 1, func(c *cluster) {
			make1(c, kinds.Jobs, jobOf("j", "", nil))
			old := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", UID: "gone"}}
			p := &corev1.Pod{ObjectMeta: meta("p"), Spec: template(nil).Spec}
			p.Labels, p.Finalizers = map[string]string{batchv1.JobNameLabel: "j"}, []string{batchv1.JobTrackingFinalizer}
			p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(old, kinds.Jobs.GVK)}
			make1(c, kinds.Pods, p)
			c.until("the pod of before is gone", func(r resource.Reader) bool { return resource.Get(r, kinds.Pods, "default", "p") == nil })
		})
	})
	t.Run("selector of its own", func(t *testing.T) {
		simulate(t, 1, func(c *cluster) {
			make1(c, kinds.Jobs, jobOf("j", "", func(s *batchv1.JobSpec) {
				s.ManualSelector, s.Selector = new(true), &metav1.LabelSelector{MatchLabels: map[string]string{"job": "j"}}
			}))
			c.until("its pod runs", func(r resource.Reader) bool { return ready(r, "job", "j") == 1 })
			if err := c.Delete(c.t.Context(), kinds.Jobs, "default", "j", backgroundly()); err != nil {
				c.t.Fatal(err)
			}
			c.until("its pod is gone", func(r resource.Reader) bool { return len(resource.List(r, kinds.Pods, "default")) == 0 })
		})
	})
}

// A job that has ended takes in no pod, which would go with it.
func TestEndedJobAdoptsNobody(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		l := map[string]string{"job": "j"}
		make1(c, kinds.Jobs, jobOf("j", "0", func(s *batchv1.JobSpec) {
			s.ManualSelector, s.Selector = new(true), &metav1.LabelSelector{MatchLabels: l}
		}))
		c.until("it is complete", func(r resource.Reader) bool {
			return resource.Get(r, kinds.Jobs, "default", "j").Status.CompletionTime != nil
		})
		p := &corev1.Pod{ObjectMeta: meta("p"), Spec: template(nil).Spec}
		p.Labels = l
		make1(c, kinds.Pods, p)
		time.Sleep(time.Minute)
		synctest.Wait()
		if refs := resource.Get(c.Read(), kinds.Pods, "default", "p").OwnerReferences; len(refs) > 0 {
			c.t.Errorf("it has the owner %v", refs)
		}
	})
}

// A node that comes back within the quarantine has a whole one when it goes again.
func TestQuarantineBeginsAnew(t *testing.T) {
	simulate(t, 0, func(c *cluster) {
		p := &corev1.Pod{ObjectMeta: meta("p"), Spec: template(nil).Spec}
		p.Spec.NodeName = "n"
		make1(c, kinds.Pods, p)
		time.Sleep(20 * time.Second)
		for i := range 2 {
			make1(c, kinds.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
			time.Sleep(30 * time.Second)
			if err := c.Delete(c.t.Context(), kinds.Nodes, "", "n", nil); err != nil {
				c.t.Fatal(err)
			}
			time.Sleep(20 * time.Second)
			synctest.Wait()
			if resource.Get(c.Read(), kinds.Pods, "default", "p") == nil {
				c.t.Fatal(fmt.Sprint("the pod is gone 20 seconds after its node, the time ", i+1))
			}
		}
		c.until("it goes in the end", func(r resource.Reader) bool { return resource.Get(r, kinds.Pods, "default", "p") == nil })
	})
}

// An owner that waits in the foreground goes when what blocked it stops, or has another owner instead.
func TestBlockedOwnerIsLetGo(t *testing.T) {
	foreground := metav1.DeletePropagationForeground
	for name, f := range map[string]func(refs []metav1.OwnerReference, other metav1.OwnerReference) []metav1.OwnerReference{
		"it blocks no more": func(refs []metav1.OwnerReference, _ metav1.OwnerReference) []metav1.OwnerReference {
			refs[0].BlockOwnerDeletion = new(bool)
			return refs
		},
		"another owner": func(_ []metav1.OwnerReference, other metav1.OwnerReference) []metav1.OwnerReference {
			return []metav1.OwnerReference{other}
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, 0, func(c *cluster) {
				own := func(name string) *corev1.ConfigMap {
					return make1(c, kinds.ConfigMaps, &corev1.ConfigMap{ObjectMeta: meta(name)})
				}
				ref := func(m *corev1.ConfigMap) metav1.OwnerReference {
					return *metav1.NewControllerRef(m, kinds.ConfigMaps.GVK)
				}
				a, b := own("a"), own("b")
				dep := &corev1.ConfigMap{ObjectMeta: meta("kept")}
				dep.OwnerReferences = []metav1.OwnerReference{ref(a)}
				make1(c, kinds.ConfigMaps, dep)
				if err := c.Delete(c.t.Context(), kinds.ConfigMaps, "default", "a", &metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
					c.t.Fatal(err)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if resource.Get(c.Read(), kinds.ConfigMaps, "default", "a") == nil {
					c.t.Fatal("the owner did not wait")
				}
				edit(c, kinds.ConfigMaps, "default", "kept", "", func(m *corev1.ConfigMap) { m.OwnerReferences = f(m.OwnerReferences, ref(b)) })
				time.Sleep(time.Second)
				synctest.Wait()
				if resource.Get(c.Read(), kinds.ConfigMaps, "default", "a") != nil {
					c.t.Error("the owner still waits")
				}
			})
		})
	}
}
