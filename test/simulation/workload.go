package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// A workload is a series of actions of users on a cluster. It depends on the seed alone, so that the end that they ask for is the same
// whatever goes wrong.
type workload struct {
	steps   []action
	remains []action // for the end
	model   model
}

// An action is one thing that a user does. It is tried until it works.
type action struct {
	name string
	wait time.Duration // before it
	do   func(u *user) error
}

// model holds the objects that the workload has made so far, by name.
type model struct {
	nodes                          []string
	cordoned, tainted              map[string]bool
	deployments, sets, daemons     []string
	jobs, crons, services, budgets []string
	controllers, scaled, quotas    []string
	devices, hooked, policed       bool
	serial                         int
}

// user runs a workload.
type user struct {
	*faultyClient
	ctx context.Context
}

const ns = "default"

// newWorkload makes the seed's workload of about n steps.
func newWorkload(seed uint64, n int) *workload {
	d := rand.New(rand.NewPCG(seed, 3))
	p := &workload{model: model{cordoned: map[string]bool{}, tainted: map[string]bool{}}}
	for range 3 + d.IntN(3) {
		p.addNode(d)
	}
	makers := []func(*rand.Rand){p.deploy, p.deploy, p.statefulSet, p.statefulSet, p.daemonSet, p.job, p.job, p.job, p.cronJob, p.space,
		p.claims, p.replication, p.devices, p.crowd, p.tight, p.define, p.tree}
	changers := []func(*rand.Rand){p.scale, p.scale, p.rollout, p.rollout, p.rollout, p.kill, p.kill, p.evict, p.cordon, p.taint,
		p.addNode, p.dropNode,
		p.remove, p.service, p.budget, p.drain, p.autoscale, p.resize, p.hooks, p.policies, p.tree}
	if d.IntN(3) == 0 {
		p.add(d, "quota", func(u *user) error { return u.make1(kinds.ResourceQuotas, quotaOf(ns)) })
	}
	for i := range n {
		list := changers
		if i < 3 || d.IntN(4) == 0 {
			list = makers
		}
		list[d.IntN(len(list))](d)
	}
	p.tidy()
	return p
}

func (p *workload) add(d *rand.Rand, name string, do func(u *user) error) {
	wait := time.Duration(0)
	switch {
	case d == nil:
	case d.IntN(3) == 0:
		wait = time.Duration(d.Int64N(int64(40 * time.Second)))
	default:
		wait = time.Duration(d.Int64N(int64(3 * time.Second)))
	}
	p.steps = append(p.steps, action{name, wait, do})
}

// fresh returns a name that was not used before.
func (p *workload) fresh(base string) string {
	p.model.serial++
	return fmt.Sprintf("%s%d", base, p.model.serial)
}

func anyOf(d *rand.Rand, list []string) (string, bool) {
	if len(list) == 0 {
		return "", false
	}
	return list[d.IntN(len(list))], true
}

// play runs the workload.
func (p *workload) play(u *user) error {
	for _, a := range p.steps {
		if !sleep(u.ctx, a.wait) {
			return u.ctx.Err()
		}
		u.w.steps.note("user: %s", a.name)
		if err := u.insist(a); err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
	}
	return nil
}

// patience is the number of tries of a user: for twelve minutes, because a change that was lost is noticed after ten.
const patience = 2400

// insist tries until it works.
func (u *user) insist(a action) error {
	for try := 1; ; try++ {
		err := a.do(u)
		if err == nil || u.ctx.Err() != nil || try == patience {
			return err
		}
		u.w.steps.note("user: %s: %v", a.name, err)
		if !sleep(u.ctx, 300*time.Millisecond) {
			return u.ctx.Err()
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// make1 creates an object; one that is there already came of an earlier try.
func (u *user) make1(k resource.Kind, obj resource.Object) error {
	_, err := u.Create(u.ctx, k, obj)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// made is an object with its kind.
type made struct {
	k   resource.Kind
	obj resource.Object
}

func (u *user) makeAll(list []made) error {
	for _, x := range list {
		if err := u.make1(x.k, x.obj); err != nil {
			return err
		}
	}
	return nil
}

// edit changes an object as it is now.
func edit[T resource.Object](u *user, d *resource.Def[T], namespace, name string, f func(T)) error {
	cur, err := u.Get(u.ctx, d, namespace, name)
	if err != nil {
		return err
	}
	next := resource.Clone(cur.(T))
	f(next)
	_, err = u.Update(u.ctx, d, next, "")
	return err
}

// drop deletes an object; one that is gone is fine.
func (u *user) drop(k resource.Kind, namespace, name string, how metav1.DeletionPropagation) error {
	err := u.Delete(u.ctx, k, namespace, name, &metav1.DeleteOptions{PropagationPolicy: &how})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (p *workload) addNode(d *rand.Rand) {
	if len(p.model.nodes) >= 7 {
		return
	}
	name, zone := p.fresh("node-"), fmt.Sprint("z", d.IntN(2))
	p.model.nodes = append(p.model.nodes, name)
	p.add(d, "add "+name, func(u *user) error { return u.make1(kinds.Nodes, nodeOf(name, zone)) })
}

// dropNode removes a node for good; three stay.
func (p *workload) dropNode(d *rand.Rand) {
	if len(p.model.nodes) <= 3 {
		return
	}
	i := d.IntN(len(p.model.nodes))
	name := p.model.nodes[i]
	p.model.nodes = slices.Delete(p.model.nodes, i, i+1)
	delete(p.model.cordoned, name)
	delete(p.model.tainted, name)
	p.add(d, "remove "+name, func(u *user) error { return u.drop(kinds.Nodes, "", name, metav1.DeletePropagationBackground) })
}

func (p *workload) cordon(d *rand.Rand) {
	name, _ := anyOf(d, p.model.nodes)
	on := !p.model.cordoned[name]
	p.setCordon(d, name, on)
}

func (p *workload) setCordon(d *rand.Rand, name string, on bool) {
	p.model.cordoned[name] = on
	p.add(d, fmt.Sprintf("cordon %s: %t", name, on), func(u *user) error {
		return edit(u, kinds.Nodes, "", name, func(n *corev1.Node) { n.Spec.Unschedulable = on })
	})
}

const taintKey = "proof"

func (p *workload) taint(d *rand.Rand) {
	name, _ := anyOf(d, p.model.nodes)
	p.setTaint(d, name, !p.model.tainted[name])
}

func (p *workload) setTaint(d *rand.Rand, name string, on bool) {
	p.model.tainted[name] = on
	p.add(d, fmt.Sprintf("taint %s: %t", name, on), func(u *user) error {
		return edit(u, kinds.Nodes, "", name, func(n *corev1.Node) {
			n.Spec.Taints = slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool { return t.Key == taintKey })
			if on {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: taintKey, Effect: corev1.TaintEffectNoExecute})
			}
		})
	})
}

func (p *workload) deploy(d *rand.Rand) {
	name := p.fresh("web")
	obj := deploymentOf(d, ns, name)
	p.model.deployments = append(p.model.deployments, name)
	p.add(d, "deploy "+name, func(u *user) error { return u.make1(kinds.Deployments, obj) })
}

func (p *workload) statefulSet(d *rand.Rand) {
	name := p.fresh("db")
	obj := statefulSetOf(d, ns, name)
	p.model.sets = append(p.model.sets, name)
	if len(obj.Spec.VolumeClaimTemplates) > 0 {
		for range maxReplicas {
			pv := volumeOf(p.fresh("disk-"), name)
			p.add(nil, "add "+pv.Name, func(u *user) error { return u.make1(kinds.PersistentVolumes, pv) })
		}
	}
	p.add(d, "stateful set "+name, func(u *user) error { return u.make1(kinds.StatefulSets, obj) })
}

// claims makes a StatefulSet whose volumes are provided.
func (p *workload) claims(d *rand.Rand) {
	name := p.fresh("db")
	obj := claimingSetOf(d, ns, name)
	p.model.sets = append(p.model.sets, name)
	p.add(d, "stateful set "+name+" with disks", func(u *user) error { return u.make1(kinds.StatefulSets, obj) })
}

func (p *workload) daemonSet(d *rand.Rand) {
	if len(p.model.daemons) >= 2 {
		return
	}
	name := p.fresh("agent")
	obj := daemonSetOf(d, ns, name, int32(9000+len(p.model.daemons)))
	p.model.daemons = append(p.model.daemons, name)
	p.add(d, "daemon set "+name, func(u *user) error { return u.make1(kinds.DaemonSets, obj) })
}

func (p *workload) job(d *rand.Rand) {
	name := p.fresh("job")
	obj := jobOf(d, ns, name)
	p.model.jobs = append(p.model.jobs, name)
	p.add(d, "job "+name, func(u *user) error { return u.make1(kinds.Jobs, obj) })
}

func (p *workload) cronJob(d *rand.Rand) {
	name := p.fresh("cron")
	obj := cronJobOf(d, ns, name)
	p.model.crons = append(p.model.crons, name)
	p.add(d, "cron job "+name, func(u *user) error { return u.make1(kinds.CronJobs, obj) })
}

func (p *workload) service(d *rand.Rand) {
	app, ok := anyOf(d, append(slices.Clone(p.model.deployments), p.model.sets...))
	if !ok {
		return
	}
	name := p.fresh("svc")
	p.model.services = append(p.model.services, name)
	p.add(d, "service "+name+" for "+app, func(u *user) error { return u.make1(kinds.Services, serviceOf(ns, name, app)) })
}

func (p *workload) budget(d *rand.Rand) {
	app, ok := anyOf(d, append(slices.Clone(p.model.deployments), p.model.sets...))
	if !ok || slices.Contains(p.model.budgets, app) {
		return
	}
	p.model.budgets = append(p.model.budgets, app)
	one := intstr.FromInt32(1)
	p.add(d, "budget "+app, func(u *user) error {
		return u.make1(kinds.PodDisruptionBudgets, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: app},
			Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &one, Selector: selecting(app)}})
	})
}

// space makes a namespace with something in it and deletes it later.
func (p *workload) space(d *rand.Rand) {
	name := p.fresh("space-")
	dep, set, job := deploymentOf(d, name, "w"), statefulSetOf(d, name, "s"), jobOf(d, name, "j")
	rc := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "r"}, Spec: corev1.ReplicationControllerSpec{
		Replicas: new(int32(1)), Selector: map[string]string{"app": "r"}, Template: new(templateOf(d, "r"))}}
	held := leafOf(name, "held")
	if d.IntN(2) == 0 {
		held.Finalizers = []string{heldBy}
	}
	p.add(d, "namespace "+name, func(u *user) error {
		return u.make1(kinds.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	})
	p.add(d, "fill "+name, func(u *user) error {
		return u.makeAll([]made{{kinds.Deployments, dep}, {kinds.StatefulSets, set}, {kinds.Jobs, job},
			{kinds.Services, serviceOf(name, "v", "w")},
			{kinds.ReplicationControllers, rc}, {kinds.ConfigMaps, held}})
	})
	p.add(d, "delete namespace "+name, func(u *user) error {
		return u.drop(kinds.Namespaces, "", name, metav1.DeletePropagationBackground)
	})
	p.add(d, "let go of "+name, func(u *user) error { return u.letGo(name, held.Name) })
}

func (p *workload) scale(d *rand.Rand) {
	n := int32(d.IntN(maxReplicas + 1))
	dep, hasDep := anyOf(d, p.model.deployments)
	set, hasSet := anyOf(d, p.model.sets)
	switch toSet := d.IntN(2) == 0; {
	case hasSet && (toSet || !hasDep):
		p.add(d, fmt.Sprintf("scale %s to %d", set, n), func(u *user) error {
			return edit(u, kinds.StatefulSets, ns, set, func(s *appsv1.StatefulSet) { s.Spec.Replicas = &n })
		})
	case hasDep:
		p.add(d, fmt.Sprintf("scale %s to %d", dep, n), func(u *user) error {
			return edit(u, kinds.Deployments, ns, dep, func(x *appsv1.Deployment) { x.Spec.Replicas = &n })
		})
	}
}

func (p *workload) rollout(d *rand.Rand) {
	image := fmt.Sprintf("image:%d", d.IntN(3)) // so that some roll back
	dep, hasDep := anyOf(d, p.model.deployments)
	set, hasSet := anyOf(d, p.model.sets)
	dmn, hasDmn := anyOf(d, p.model.daemons)
	switch i := d.IntN(3); {
	case i == 0 && hasSet:
		p.add(d, "roll "+set+" to "+image, func(u *user) error {
			return edit(u, kinds.StatefulSets, ns, set, func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = image })
		})
	case i == 1 && hasDmn:
		p.add(d, "roll "+dmn+" to "+image, func(u *user) error {
			return edit(u, kinds.DaemonSets, ns, dmn, func(s *appsv1.DaemonSet) { s.Spec.Template.Spec.Containers[0].Image = image })
		})
	case hasDep:
		p.add(d, "roll "+dep+" to "+image, func(u *user) error {
			return edit(u, kinds.Deployments, ns, dep, func(x *appsv1.Deployment) { x.Spec.Template.Spec.Containers[0].Image = image })
		})
	}
}

// kill deletes a pod, whichever there is.
func (p *workload) kill(d *rand.Rand) {
	n := d.IntN(1000)
	p.add(d, "kill a pod", func(u *user) error {
		if pod := u.somePod(n); pod != nil {
			return u.drop(kinds.Pods, ns, pod.Name, metav1.DeletePropagationBackground)
		}
		return nil
	})
}

// evict asks for a pod to go; a budget may say no.
func (p *workload) evict(d *rand.Rand) {
	n := d.IntN(1000)
	p.add(d, "evict a pod", func(u *user) error {
		pod := u.somePod(n)
		if pod == nil {
			return nil
		}
		if err := u.evict(ns, pod.Name); !apierrors.IsTooManyRequests(err) {
			return err
		}
		return nil
	})
}

func (u *user) somePod(n int) *corev1.Pod {
	list := resource.List(u.Read(), kinds.Pods, ns)
	list = slices.DeleteFunc(list, func(p *corev1.Pod) bool { return p.Labels[batchv1.JobNameLabel] != "" })
	if len(list) == 0 {
		return nil
	}
	return list[n%len(list)]
}

// remove deletes a workload.
func (p *workload) remove(d *rand.Rand) {
	how := metav1.DeletePropagationBackground
	switch d.IntN(6) {
	case 0, 1:
		how = metav1.DeletePropagationForeground
	case 2:
		how = metav1.DeletePropagationOrphan
	}
	from := func(k resource.Kind, list *[]string) {
		if len(*list) == 0 {
			return
		}
		i := d.IntN(len(*list))
		name := (*list)[i]
		*list = slices.Delete(*list, i, i+1)
		p.add(d, fmt.Sprintf("delete %s %s, %s", k.Info().Singular, name, how), func(u *user) error { return u.drop(k, ns, name, how) })
	}
	switch d.IntN(5) {
	case 0:
		from(kinds.Deployments, &p.model.deployments)
	case 1:
		from(kinds.StatefulSets, &p.model.sets)
	case 2:
		from(kinds.DaemonSets, &p.model.daemons)
	case 3:
		from(kinds.Jobs, &p.model.jobs)
	case 4:
		from(kinds.Services, &p.model.services)
	}
}

// tidy ends what would go on for ever, and opens all nodes: everything that is asked for then fits.
func (p *workload) tidy() {
	for _, name := range p.model.nodes {
		if p.model.cordoned[name] {
			p.setCordon(nil, name, false)
		}
		if p.model.tainted[name] {
			p.setTaint(nil, name, false)
		}
	}
	p.enough()
	p.steps = append(p.steps, p.remains...)
	for _, name := range p.model.crons {
		p.add(nil, "delete cron job "+name, func(u *user) error { return u.drop(kinds.CronJobs, ns, name, metav1.DeletePropagationBackground) })
	}
}
