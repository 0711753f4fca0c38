// Package job runs pods until enough of them have succeeded.
//
//	reads   Job, its Namespace, the Pods it owns, Pods without an owner that its selector matches
//	writes  Pod: create, delete, finalizers; Job: status
//	rule    parallelism pods run until completions have succeeded or the job has failed; every pod that ends is counted
//	        exactly once, whatever crashes in between: its uid stands in the status before its finalizer goes, and leaves the
//	        status with the same write that raises the count
package job

import (
	"context"
	"errors"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/controllers/internal/ownership"
	"github.com/kloop-dev/kloop/controllers/internal/pods"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Controller is the loop: wake on a Job, on its Pods and on the end of its Namespace.
var Controller = &loop.Controller[*batchv1.Job]{
	Name: "job",
	For:  kinds.Jobs,
	Wake: []loop.Wake{loop.Owner(kinds.Pods), adopters, {Kind: kinds.Namespaces, Keys: closing},
		{Kind: kinds.Pods, Count: countHeld}},
	Writes:    []resource.Kind{kinds.Pods, kinds.Jobs},
	Pause:     time.Second, // as upstream's: each try that is refused is an event
	MaxPause:  time.Minute,
	Reconcile: reconcile,
	Gone:      gone,
	Find: func(read resource.Reader, wake func(ns, name string)) {
		for obj := range read.Each(kinds.Pods, "") {
			if ref := metav1.GetControllerOfNoCopy(obj); ref != nil && ref.Kind == "Job" && tracked(obj.(*corev1.Pod)) {
				wake(obj.GetNamespace(), ref.Name)
			}
		}
	},
}

// closing wakes the jobs of a namespace whose deletion begins: their pods have no successors any more.
func closing(c client.Change, read resource.Reader, wake func(ns, name string)) {
	old, _ := c.Old.(*corev1.Namespace)
	if ns, ok := c.New.(*corev1.Namespace); ok && ns.DeletionTimestamp != nil && (old == nil || old.DeletionTimestamp == nil) {
		for obj := range read.Each(kinds.Jobs, ns.Name) {
			wake(ns.Name, obj.GetName())
		}
	}
}

// adopters wakes those that may adopt.
var adopters = loop.Adopters(kinds.Pods, kinds.Jobs, func(o *batchv1.Job) *metav1.LabelSelector { return o.Spec.Selector })

func reconcile(ctx context.Context, c *loop.Ctx, j *batchv1.Job) (time.Duration, error) {
	if j.Spec.ManagedBy != nil && *j.Spec.ManagedBy != batchv1.JobControllerName {
		return 0, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(j.Spec.Selector)
	if err != nil {
		return 0, nil // validation refuses such a selector
	}
	if err := abandon(ctx, c, left(c, j)); err != nil {
		return 0, err
	}
	owned, err := podsOf(ctx, c, j, selector) // observe
	if err != nil {
		return 0, err
	}
	w := observe(j, owned, c.Now())
	ns := resource.Get(c, kinds.Namespaces, "", j.Namespace)
	w.closing = ns == nil || ns.DeletionTimestamp != nil
	todo := plan(w)            // decide
	err = act(ctx, c, j, todo) // act
	measure(c, j, todo.doing, w.now, err)
	return todo.again, err
}

// podsOf are the job's pods. One that has ended takes none in.
func podsOf(ctx context.Context, c *loop.Ctx, j *batchv1.Job, selector labels.Selector) ([]*corev1.Pod, error) {
	if ended(j.Status.Conditions) {
		return resource.Owned(c, kinds.Pods, j), nil
	}
	return pods.Claim(ctx, c, ownership.Owner[*corev1.Pod]{Object: j, Kind: kinds.Jobs, Selector: selector,
		Finalizer: batchv1.JobTrackingFinalizer})
}

// act starts and stops pods, then writes the status, and only then lets go of the pods that the status now counts.
func act(ctx context.Context, c *loop.Ctx, j *batchv1.Job, t todo) error {
	_, err := loop.All(len(t.remove), func(i int) error {
		if t.uncount && tracked(t.remove[i]) {
			if err := release(ctx, c, t.remove[i]); err != nil {
				return err
			}
		}
		return pods.Delete(ctx, c, kinds.Jobs, j, t.remove[i])
	})
	if err == nil {
		var made int
		made, err = loop.Batch(len(t.create), func(i int) error { return pods.Create(ctx, c, kinds.Jobs, j, newPod(j, t.create[i])) })
		t.status.Active -= int32(len(t.create) - made)
	}
	if !resource.Same(j.Status, t.status) {
		next := resource.Clone(j)
		next.Status = t.status
		if serr := c.UpdateStatus(ctx, kinds.Jobs, next); serr != nil {
			return errors.Join(err, serr)
		}
		tell(c, j, t.status)
		countEnds(c, j, t.status)
	}
	_, rerr := loop.All(len(t.release), func(i int) error {
		if err := release(ctx, c, t.release[i]); err != nil {
			return err
		}
		countPolicy(c, j, t.release[i])
		return nil
	})
	return errors.Join(err, rerr)
}

// tell says what happened to the job in events.
func tell(c *loop.Ctx, j *batchv1.Job, st batchv1.JobStatus) {
	for i := range st.Conditions {
		now := &st.Conditions[i]
		was := find(j.Status.Conditions, now.Type)
		if was != nil && was.Status == now.Status || was == nil && now.Status != corev1.ConditionTrue {
			continue
		}
		typ, reason, text := corev1.EventTypeNormal, now.Reason, now.Message
		switch now.Type {
		case batchv1.JobComplete:
			if n := j.Spec.Completions; n != nil && st.Succeeded > *n {
				c.Event(kinds.Jobs, j, corev1.EventTypeWarning, "TooManySucceededPods",
					"Too many succeeded pods running after completion count reached")
			}
			c.Count(finished, mode(j), "succeeded", now.Reason)
			reason, text = "Completed", "Job completed"
		case batchv1.JobFailed:
			c.Count(finished, mode(j), "failed", now.Reason)
			typ = corev1.EventTypeWarning
		case batchv1.JobSuspended:
			reason, text = "Suspended", "Job suspended"
			if now.Status != corev1.ConditionTrue {
				reason, text = "Resumed", "Job resumed"
			}
		default:
			continue
		}
		c.Event(kinds.Jobs, j, typ, reason, "%s", text)
	}
}

// tracked says whether the pod still has to be counted.
func tracked(p *corev1.Pod) bool {
	for _, f := range p.Finalizers {
		if f == batchv1.JobTrackingFinalizer {
			return true
		}
	}
	return false
}

// release takes the finalizer off a pod that is counted, so that it can go.
func release(ctx context.Context, c *loop.Ctx, p *corev1.Pod) error {
	err := pods.DropFinalizer(ctx, c, p, batchv1.JobTrackingFinalizer)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// gone releases the pods of a job that does not exist any more: nobody counts them.
func gone(ctx context.Context, c *loop.Ctx, key loop.Key) (time.Duration, error) {
	var list []*corev1.Pod
	for obj := range c.Each(kinds.Pods, key.Namespace) { // with a selector of its own a job's pods have no label that names it
		p, ref := obj.(*corev1.Pod), metav1.GetControllerOfNoCopy(obj)
		if tracked(p) && (ref == nil && p.Labels[batchv1.JobNameLabel] == key.Name || ref != nil && ref.Kind == "Job" && ref.Name == key.Name) {
			list = append(list, p)
		}
	}
	return 0, abandon(ctx, c, list)
}

// left are the pods of an earlier job of the name, which went and came back so soon that nobody saw it gone.
func left(c *loop.Ctx, j *batchv1.Job) (list []*corev1.Pod) {
	all := c.ByLabel(kinds.Pods, j.Namespace, batchv1.JobNameLabel, j.Name)
	if j.Spec.ManualSelector != nil && *j.Spec.ManualSelector {
		all = c.Each(kinds.Pods, j.Namespace)
	}
	for obj := range all {
		ref := metav1.GetControllerOfNoCopy(obj)
		if p := obj.(*corev1.Pod); ref != nil && ref.Kind == "Job" && ref.Name == j.Name && ref.UID != j.UID && tracked(p) {
			list = append(list, p)
		}
	}
	return list
}

func abandon(ctx context.Context, c *loop.Ctx, list []*corev1.Pod) error {
	_, err := loop.All(len(list), func(i int) error { return release(ctx, c, list[i]) })
	return err
}
