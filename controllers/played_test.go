package controllers_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/sim"
)

// What upstream's loops are known to come to in these situations.

// after lets simulated time pass and tells what there is.
func (c *cluster) after(d time.Duration, shape func(r resource.Reader) string) string {
	time.Sleep(d)
	synctest.Wait()
	return shape(c.Read())
}

// expect compares what there is a while later.
func (c *cluster) expect(what string, shape func(r resource.Reader) string, want string) {
	c.t.Helper()
	if got := c.after(time.Minute, shape); got != want {
		c.t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// setsOf are the sizes of ReplicaSets, by image, with who owns them.
func setsOf(r resource.Reader) string {
	var list []string
	for _, rs := range resource.List(r, kinds.ReplicaSets, "default") {
		list = append(list, fmt.Sprintf("%s=%d owned:%t", rs.Spec.Template.Spec.Containers[0].Image, *rs.Spec.Replicas,
			metav1.GetControllerOf(rs) != nil))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func deployed(n int32, edit func(*appsv1.DeploymentSpec)) *appsv1.Deployment {
	l := map[string]string{"app": "d"}
	d := &appsv1.Deployment{ObjectMeta: meta("d"), Spec: appsv1.DeploymentSpec{Replicas: &n,
		Selector: &metav1.LabelSelector{MatchLabels: l}, Template: template(l)}}
	if edit != nil {
		edit(&d.Spec)
	}
	return d
}

func TestPausedDeploymentScalesWhatItHas(t *testing.T) {
	simulate(t, 2, func(c *cluster) {
		make1(c, kinds.Deployments, deployed(1, func(d *appsv1.DeploymentSpec) { d.Paused = true }))
		c.expect("paused from the start", setsOf, "")
		edit(c, kinds.Deployments, "default", "d", "", func(d *appsv1.Deployment) { d.Spec.Paused = false })
		c.expect("resumed", setsOf, "i:1=1 owned:true")
		edit(c, kinds.Deployments, "default", "d", "", func(d *appsv1.Deployment) {
			d.Spec.Paused, d.Spec.Replicas, d.Spec.Template.Spec.Containers[0].Image = true, new(int32(3)), "i:2"
		})
		c.expect("paused, changed and scaled", setsOf, "i:1=3 owned:true")
	})
}

func TestDeploymentScalesInProportion(t *testing.T) {
	simulate(t, 2, func(c *cluster) {
		surge, down := intstr.FromInt32(3), intstr.FromInt32(2)
		make1(c, kinds.Deployments, deployed(10, func(d *appsv1.DeploymentSpec) {
			d.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &down}
		}))
		c.expect("at first", setsOf, "i:1=10 owned:true")
		edit(c, kinds.Deployments, "default", "d", "", func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].Image, d.Spec.Template.Annotations = "i:2", map[string]string{sim.Unready: "yes"}
		})
		c.expect("in the middle of a rollout", setsOf, "i:1=8 owned:true, i:2=5 owned:true")
		edit(c, kinds.Deployments, "default", "d", "", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(30)) })
		c.expect("scaled meanwhile", setsOf, "i:1=20 owned:true, i:2=13 owned:true")
	})
}

// TestRolloutBegins: the first pod of a new template is a movement, however many pods the last one had.
func TestRolloutBegins(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		l, two := map[string]string{"app": "r"}, int32(2)
		d := &appsv1.Deployment{ObjectMeta: meta("r"), Spec: appsv1.DeploymentSpec{Replicas: &two,
			Selector: &metav1.LabelSelector{MatchLabels: l}, Template: template(l)}}
		d.Spec.Template.Annotations = map[string]string{"sim.kloop.dev/hold": "true"}
		make1(c, kinds.Deployments, d)
		updated := func(generation int64, n int32) func(r resource.Reader) bool {
			return func(r resource.Reader) bool {
				st := resource.Get(r, kinds.Deployments, "default", "r").Status
				return st.ObservedGeneration == generation && st.UpdatedReplicas == n
			}
		}
		c.until("both", updated(1, 2))
		edit(c, kinds.Deployments, "default", "r", "", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "i:2" })
		c.until("one of the new", updated(2, 1))
		for _, cond := range resource.Get(c.Read(), kinds.Deployments, "default", "r").Status.Conditions {
			if cond.Type == appsv1.DeploymentProgressing && cond.Reason != "ReplicaSetUpdated" {
				c.t.Errorf("reason %s: %s", cond.Reason, cond.Message)
			}
		}
	})
}

func TestDeploymentLosesAndFindsItsSet(t *testing.T) {
	simulate(t, 2, func(c *cluster) {
		make1(c, kinds.Deployments, deployed(2, nil))
		c.expect("at first", setsOf, "i:1=2 owned:true")
		first := resource.List(c.Read(), kinds.ReplicaSets, "default")[0].Name
		label := func(app string) {
			edit(c, kinds.ReplicaSets, "default", first, "", func(r *appsv1.ReplicaSet) { r.Labels["app"] = app })
		}
		edit(c, kinds.ReplicaSets, "default", first, "", func(r *appsv1.ReplicaSet) { r.OwnerReferences, r.Spec.Replicas = nil, new(int32(0)) })
		c.expect("it is taken back, and has its size again", setsOf, "i:1=2 owned:true")
		label("other")
		c.expect("one that does not match is let go, and another made", setsOf, "i:1=2 owned:false, i:1=2 owned:true")
		label("d")
		c.expect("the elder is taken back", setsOf, "i:1=0 owned:true, i:1=2 owned:true")
	})
}

// counts is how the job counts its pods.
func counts(r resource.Reader) string {
	s := resource.Get(r, kinds.Jobs, "default", "j").Status
	return fmt.Sprintf("active %d, succeeded %d (%s), failed %d, terminating %d", s.Active, s.Succeeded, s.CompletedIndexes, s.Failed,
		*s.Terminating)
}

func indexed(n int32, edit func(*batchv1.JobSpec)) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: meta("j"), Spec: batchv1.JobSpec{Template: template(nil),
		CompletionMode: new(batchv1.IndexedCompletion), Completions: &n, Parallelism: &n}}
	j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	if edit != nil {
		edit(&j.Spec)
	}
	return j
}

// ends sets how the pods of some indexes ended.
func (c *cluster) ends(phase corev1.PodPhase, indexes ...string) {
	for _, p := range resource.List(c.Read(), kinds.Pods, "default") {
		if slices.Contains(indexes, p.Annotations[batchv1.JobCompletionIndexAnnotation]) {
			edit(c, kinds.Pods, "default", p.Name, "status", func(p *corev1.Pod) { p.Status.Phase = phase })
		}
	}
}

func TestElasticJob(t *testing.T) {
	simulate(t, 0, func(c *cluster) {
		make1(c, kinds.Jobs, indexed(4, nil))
		c.expect("at first", counts, "active 4, succeeded 0 (), failed 0, terminating 0")
		c.ends(corev1.PodSucceeded, "1", "3")
		c.expect("two are done", counts, "active 2, succeeded 2 (1,3), failed 0, terminating 0")
		size := func(n int32) {
			edit(c, kinds.Jobs, "default", "j", "", func(j *batchv1.Job) { j.Spec.Completions, j.Spec.Parallelism = &n, new(n) })
		}
		size(2)
		c.expect("smaller: what is beyond does not count", counts, "active 1, succeeded 1 (1), failed 0, terminating 0")
		size(3)
		c.expect("larger", counts, "active 2, succeeded 1 (1), failed 0, terminating 0")
	})
}

func TestJobReplacesWhatHasFailed(t *testing.T) {
	simulate(t, 0, func(c *cluster) {
		make1(c, kinds.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}, Spec: corev1.NodeSpec{Unschedulable: true}})
		make1(c, kinds.Jobs, indexed(2, func(j *batchv1.JobSpec) { j.PodReplacementPolicy = new(batchv1.Failed) }))
		c.expect("at first", counts, "active 2, succeeded 0 (), failed 0, terminating 0")
		for _, p := range resource.List(c.Read(), kinds.Pods, "default") {
			if _, err := c.Call(c.t.Context(), kinds.Pods, "default", p.Name, "binding",
				&corev1.Binding{ObjectMeta: meta(p.Name), Target: corev1.ObjectReference{Kind: "Node", Name: "elsewhere"}}); err != nil {
				c.t.Fatal(err)
			}
			if err := c.Delete(c.t.Context(), kinds.Pods, "default", p.Name,
				&metav1.DeleteOptions{GracePeriodSeconds: new(int64(3600))}); err != nil {
				c.t.Fatal(err)
			}
		}
		c.expect("they are going, and not replaced", counts, "active 0, succeeded 0 (), failed 0, terminating 2")
		c.ends(corev1.PodFailed, "0", "1")
		c.expect("they failed, and are replaced", counts, "active 2, succeeded 0 (), failed 2, terminating 0")
	})
}

func TestOwnersThatAreNotThere(t *testing.T) {
	simulate(t, 0, func(c *cluster) {
		owner := func(name string) metav1.OwnerReference {
			rc := &corev1.ReplicationController{ObjectMeta: meta(name), Spec: corev1.ReplicationControllerSpec{Replicas: new(int32),
				Selector: map[string]string{"x": name}, Template: new(template(map[string]string{"x": name}))}}
			return metav1.OwnerReference{APIVersion: "v1", Kind: "ReplicationController", Name: name,
				UID: make1(c, kinds.ReplicationControllers, rc).UID, BlockOwnerDeletion: new(true)}
		}
		a, b := owner("a"), owner("b")
		node := make1(c, kinds.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		make1(c, kinds.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
		leaf := func(ns, name string, refs ...metav1.OwnerReference) {
			make1(c, kinds.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, OwnerReferences: refs,
				Labels: map[string]string{"leaf": ""}}})
		}
		stranger := a
		stranger.UID = "nobody"
		leaf("default", "both", a, b)
		leaf("default", "of-a", a)
		leaf("default", "lost", stranger)
		leaf("default", "of-node", metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: node.UID})
		leaf("default", "unknown", metav1.OwnerReference{APIVersion: "x.io/v1", Kind: "Nothing", Name: "n", UID: "u"})
		leaf("other", "across", a)
		leaves := func(r resource.Reader) string {
			var list []string
			for _, x := range resource.List(r, kinds.ConfigMaps, "") {
				if _, ok := x.Labels["leaf"]; ok {
					list = append(list, fmt.Sprint(x.Name, len(x.OwnerReferences)))
				}
			}
			slices.Sort(list)
			return strings.Join(list, " ")
		}
		c.expect("whose owner is not there goes; of what is unknown nobody can tell", leaves, "both2 of-a1 of-node1 unknown1")
		foreground := metav1.DeletePropagationForeground
		if err := c.Delete(c.t.Context(), kinds.ReplicationControllers, "default", "a",
			&metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
			c.t.Fatal(err)
		}
		c.expect("who has another owner stays, and has that one alone", leaves, "both1 of-node1 unknown1")
		if err := c.Delete(c.t.Context(), kinds.Nodes, "", "n", nil); err != nil {
			c.t.Fatal(err)
		}
		c.expect("an owner without a namespace", leaves, "both1 unknown1")
	})
}
