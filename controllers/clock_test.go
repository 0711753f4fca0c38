package controllers_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/sim"
)

const (
	day  = 24 * time.Hour
	year = 365 * day
)

// Somebody sets the wall clock while all runs. What runs goes on, what is asked for afterwards is done as ever, nodes are judged by their
// silence, and what came due by the jump is done soon, once.
func TestClockJumps(t *testing.T) {
	for _, by := range []time.Duration{-10 * year, -day, -2 * time.Hour, 2 * time.Hour, day, 10 * year} {
		t.Run(by.String(), func(t *testing.T) {
			simulate(t, 3, func(c *cluster) {
				j := &jump{cluster: c, by: by}
				j.before()
				c.jump(by)
				j.due()
				j.stay()
				j.goOn()
				j.silence()
			})
		})
	}
}

// A jump is one case.
type jump struct {
	*cluster
	by    time.Duration
	first map[types.UID]string // the pods of before
}

// soon is the time within which what is due must be done.
const soon = time.Minute

func (j *jump) before() {
	c := j.cluster
	make1(c, kinds.Deployments, deployed(4, nil))
	make1(c, kinds.Jobs, finishing("short", 20*60))
	make1(c, kinds.CronJobs, hourly("old"))
	make1(c, kinds.Secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-abcdef"},
		Type: corev1.SecretTypeBootstrapToken, StringData: map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef",
			"expiration": c.now().Add(time.Hour).UTC().Format(time.RFC3339), "usage-bootstrap-signing": "true"}})
	c.until("all runs", func(r resource.Reader) bool {
		job := resource.Get(r, kinds.Jobs, "default", "short")
		return ready(r, "app", "d") == 4 && job != nil && job.Status.CompletionTime != nil
	})
	time.Sleep(10 * time.Minute)
	j.first = j.pods()
}

// pods are those of the Deployment.
func (j *jump) pods() map[types.UID]string {
	all := map[types.UID]string{}
	for obj := range j.Read().ByLabel(kinds.Pods, "default", "app", "d") {
		all[obj.GetUID()] = obj.GetName()
	}
	return all
}

// due looks for what the time has come for.
func (j *jump) due() {
	j.t.Helper()
	want := "runs 0, job true, token true"
	if j.by > 0 {
		want = "runs 1, job false, token false"
	}
	if got := j.after(soon, func(r resource.Reader) string {
		return fmt.Sprintf("runs %d, job %t, token %t", runs(r, "old"), resource.Get(r, kinds.Jobs, "default", "short") != nil,
			resource.Get(r, kinds.Secrets, "kube-system", "bootstrap-token-abcdef") != nil)
	}); got != want {
		j.t.Errorf("soon after the jump: %s, want %s", got, want)
	}
}

// stay looks for what must not change.
func (j *jump) stay() {
	j.t.Helper()
	time.Sleep(10 * time.Minute)
	if now := j.pods(); !maps.Equal(now, j.first) {
		j.t.Errorf("pods are others than before: %v, were %v", now, j.first)
	}
	for _, n := range resource.List(j.Read(), kinds.Nodes, "") {
		if len(n.Spec.Taints) > 0 {
			j.t.Errorf("node %s: %v", n.Name, n.Spec.Taints)
		}
	}
}

// goOn asks for all sorts of things.
func (j *jump) goOn() {
	c := j.cluster
	edit(c, kinds.Deployments, "default", "d", "", func(d *appsv1.Deployment) {
		d.Spec.Replicas, d.Spec.Template.Spec.Containers[0].Image = new(int32(6)), "i:2"
	})
	make1(c, kinds.Jobs, finishing("later", 5*60))
	make1(c, kinds.CronJobs, hourly("new"))
	make1(c, kinds.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "short"}})
	if err := c.Delete(c.t.Context(), kinds.Namespaces, "", "short", nil); err != nil {
		c.t.Fatal(err)
	}
	c.until("the rollout is done, the job ran and was removed, the namespace is gone", func(r resource.Reader) bool {
		d := resource.Get(r, kinds.Deployments, "default", "d")
		made := c.now().Sub(resource.Get(r, kinds.CronJobs, "default", "new").CreationTimestamp.Time)
		return d.Status.AvailableReplicas == 6 && d.Status.UpdatedReplicas == 6 && d.Status.Replicas == 6 && made > 6*time.Minute &&
			resource.Get(r, kinds.Jobs, "default", "later") == nil && resource.Get(r, kinds.Namespaces, "", "short") == nil
	})
	for _, d := range resource.Get(c.Read(), kinds.Deployments, "default", "d").Status.Conditions {
		if d.Status != corev1.ConditionTrue {
			c.t.Errorf("the Deployment is %s=%s: %s", d.Type, d.Status, d.Message)
		}
	}
	time.Sleep(time.Hour)
	if n := runs(c.Read(), "new"); n != 1 {
		c.t.Errorf("within an hour the new CronJob ran %d times", n)
	}
	if !slices.ContainsFunc(c.figures.All(), func(s *loop.Series) bool {
		return s.Of.Name == "cronjob_controller_job_creation_skew_duration_seconds" && s.Count() > 0
	}) {
		c.t.Error("nobody tells how late jobs came")
	}
}

// silence has a node fall silent and return.
func (j *jump) silence() {
	c := j.cluster
	name := resource.List(c.Read(), kinds.Nodes, "")[0].Name
	for _, lost := range []bool{true, false} {
		edit(c, kinds.Nodes, "", name, "", func(n *corev1.Node) {
			delete(n.Annotations, sim.Lost)
			if lost {
				n.Annotations[sim.Lost] = "yes"
			}
		})
		c.until(fmt.Sprintf("the node counts as lost: %t", lost), func(r resource.Reader) bool {
			return (len(resource.Get(r, kinds.Nodes, "", name).Spec.Taints) > 0) == lost
		})
	}
}

// finishing is a job that ends at once and may stay for a while.
func finishing(name string, ttl int32) *batchv1.Job {
	t := template(nil)
	t.Spec.RestartPolicy = corev1.RestartPolicyNever
	t.Annotations = map[string]string{sim.Run: "1s"}
	return &batchv1.Job{ObjectMeta: meta(name), Spec: batchv1.JobSpec{Template: t, TTLSecondsAfterFinished: &ttl}}
}

func hourly(name string) *batchv1.CronJob {
	spec := finishing("", 0).Spec
	spec.TTLSecondsAfterFinished = nil
	return &batchv1.CronJob{ObjectMeta: meta(name), Spec: batchv1.CronJobSpec{Schedule: "0 * * * *",
		JobTemplate: batchv1.JobTemplateSpec{Spec: spec}}}
}

func runs(r resource.Reader, cron string) (n int) {
	for _, j := range resource.List(r, kinds.Jobs, "default") {
		if o := metav1.GetControllerOf(j); o != nil && o.Name == cron {
			n++
		}
	}
	return n
}
