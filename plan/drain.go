package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// evictAgain is the pause of kubectl drain after an eviction was refused.
const evictAgain = 5 * time.Second

// Drain cordons a node and evicts its pods as kubectl drain does, with the flags that it needs; it says which.
func Drain(node string) Change {
	text := "drain node/" + node
	return Change{text, text, func(ctx context.Context, a *author) error {
		k, n, err := a.find(Target{Kind: "node", Name: node})
		if err != nil {
			return err
		}
		if err := a.patch(ctx, k, n, types.MergePatchType, "", fieldTree{"spec": fieldTree{"unschedulable": true}}); err != nil {
			return err
		}
		return a.evictAll(ctx, node)
	}}
}

// evictAll asks until all have gone, or all is at rest and the rest may not go.
func (a *author) evictAll(ctx context.Context, node string) error {
	begun, rest := time.Now(), &calm{w: a.w, horizon: a.end}
	list := a.evictable(node)
	state := map[types.UID]*Eviction{}
	for _, p := range list {
		state[p.UID] = &Eviction{Object: objectOf(kinds.Pods, p), Owner: controllerOf(p), Node: node, Why: "drain", Stays: true}
	}
	for len(list) > 0 {
		list = slices.DeleteFunc(list, func(p *corev1.Pod) bool { return a.evict(ctx, p, state[p.UID], begun) })
		if len(list) == 0 || !time.Now().Before(a.end) {
			break
		}
		stop := false
		next := time.Now().Add(evictAgain)
		if err := a.w.pass(next, func() bool { stop = stop || rest.reached(); return stop }); err != nil {
			return err
		}
		if stop {
			break
		}
	}
	for _, e := range state {
		a.evicted = append(a.evicted, *e)
	}
	return nil
}

// evict asks one pod to go; done says that it does, or is gone.
func (a *author) evict(ctx context.Context, p *corev1.Pod, e *Eviction, begun time.Time) (done bool) {
	now := resource.Get(a.w.view.Snapshot(), kinds.Pods, p.Namespace, p.Name)
	if now == nil || now.UID != p.UID || now.DeletionTimestamp != nil {
		e.Stays = false
		return true
	}
	_, err := a.w.admin().Call(ctx, kinds.Pods, p.Namespace, p.Name, "eviction",
		&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}})
	switch {
	case err == nil || apierrors.IsNotFound(err):
		e.Stays, e.After = false, Duration(time.Since(begun))
		return true
	case !apierrors.IsTooManyRequests(err) && !apierrors.IsConflict(err):
		a.refused = append(a.refused, Refusal{e.Object, err.Error()})
		e.Message = err.Error()
		return true
	}
	e.Refused++
	e.Message = strings.Join(append([]string{err.Error()}, causesOf(err)...), " ")
	return false
}

// evictable are the pods of a node that a drain evicts. It tells of flags that kubectl drain wants first.
func (a *author) evictable(node string) (list []*corev1.Pod) {
	sets, local, bare := 0, 0, 0
	for _, p := range resource.Where(a.w.view.Snapshot(), kinds.Pods, "spec.nodeName", node) {
		if p.Annotations[corev1.MirrorPodAnnotationKey] != "" || p.DeletionTimestamp != nil {
			continue
		}
		if controlledBy(p, "DaemonSet") && !core.Terminal(p) {
			sets++
			continue
		}
		if slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.EmptyDir != nil }) && !core.Terminal(p) {
			local++
		}
		if metav1.GetControllerOfNoCopy(p) == nil && !core.Terminal(p) {
			bare++
		}
		list = append(list, p)
	}
	for _, need := range []struct {
		n          int
		flag, what string
	}{{sets, "--ignore-daemonsets", "of DaemonSets, which stay"}, {local, "--delete-emptydir-data", "with data in an emptyDir, which is lost"},
		{bare, "--force", "that nobody makes anew"}} {
		if need.n > 0 {
			a.tell("kubectl drain wants %s: %s %s", need.flag, plural(need.n, "pod"), need.what)
		}
	}
	return list
}

// causesOf are the details of a refusal.
func causesOf(err error) (list []string) {
	var st apierrors.APIStatus
	if !errors.As(err, &st) || st.Status().Details == nil {
		return nil
	}
	for _, c := range st.Status().Details.Causes {
		list = append(list, c.Message)
	}
	return list
}

func controllerOf(p *corev1.Pod) string {
	ref := metav1.GetControllerOfNoCopy(p)
	if ref == nil {
		return ""
	}
	return Object{Kind: ref.Kind, Name: ref.Name}.String()
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
