package plan

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// quiet is the time without news after which one looks whether anything is still to come. It is longer than the pauses after which
// loops look for silent nodes, release them to eviction one by one, and try again what failed.
const quiet = 150 * time.Second

// A calm tells when a world has come to rest: nothing has happened for a while, and no loop waits for a time before the horizon to
// act on. A key that asked to be looked at again sooner than in the quiet time was looked at in it, and nothing came of it.
type calm struct {
	w       *world
	horizon time.Time
	next    time.Time // there is no need to ask before
}

func (c *calm) reached() bool {
	now := time.Now()
	if now.Before(c.next) {
		return false
	}
	if since := now.Sub(c.w.news); since < quiet {
		c.next = c.w.news.Add(quiet)
		return false
	}
	due := c.w.due(c.horizon)
	if due.IsZero() {
		return true
	}
	c.next = maxTime(due, now.Add(time.Second))
	return false
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// manyFails is the number of failures in a row after which the next try of a key is nothing to wait for.
const manyFails = 8

// due is the first time before the horizon at which a loop may act; zero: there is none. The next run
// of a cron job does not count when it is as usual.
func (w *world) due(horizon time.Time) (first time.Time) {
	read := w.view.Snapshot()
	for name, records := range w.loops.Records() {
		for _, r := range records {
			switch {
			case r.Next.IsZero() || r.Next.After(horizon) || r.Fails > manyFails || name == "scheduler":
				continue
			case r.Next.Sub(r.Since) < quiet: // it only looks
				continue
			case name == "cronjob" && w.usual(r.Key.Namespace, r.Key.Name):
				continue
			case name == "sim-pod":
				if p := resource.Get(read, kinds.Pods, r.Key.Namespace, r.Key.Name); p == nil || restless(p) {
					continue
				}
			}
			if first.IsZero() || r.Next.Before(first) {
				first = r.Next
			}
		}
	}
	return first
}

// routine names the cron job that an object belongs to: its runs come and go for ever; "": it belongs to none. A pod whose job is gone
// counts as of the cron job "?": it only goes.
func routine(read resource.Reader, obj resource.Object) string {
	ref := metav1.GetControllerOfNoCopy(obj)
	if ref != nil && ref.Kind == "Job" {
		j := resource.Get(read, kinds.Jobs, obj.GetNamespace(), ref.Name)
		if j == nil {
			return "?"
		}
		ref = metav1.GetControllerOfNoCopy(j)
	}
	switch _, is := obj.(*batchv1.CronJob); {
	case is:
		return obj.GetName()
	case ref != nil && ref.Kind == "CronJob":
		return ref.Name
	}
	return ""
}

// usual says that what a cron job does is known: nothing has been changed yet, or a run that began since has ended well.
func (w *world) usual(ns, name string) bool {
	return w.changed.IsZero() || name == "?" || w.well[ns+"/"+name]
}

// endedWell takes note of a run that began after the change and has ended well.
func (w *world) endedWell(obj resource.Object, of string) {
	if j, ok := obj.(*batchv1.Job); ok && !w.changed.IsZero() && !j.CreationTimestamp.Time.Before(w.changed) && j.Status.Succeeded > 0 {
		w.well[j.Namespace+"/"+of] = true
	}
}

// pending says that a pod waits for a node.
func pending(p *corev1.Pod) bool {
	return p.Spec.NodeName == "" && p.DeletionTimestamp == nil && !core.Terminal(p)
}
