package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// follow shows a Deployment's cascade as it happens: who made what, when pods were bound, ran, got ready and
// were put behind their services. It ends when all is ready.
func follow(ctx context.Context, std stdio, args []string) error {
	fs := flags(std, "follow", "DEPLOYMENT")
	var where askFlags
	where.bind(fs)
	limit := fs.Duration("timeout", 2*time.Minute, "how long to wait at most")
	words, err := wordsOf(fs, args, 1, 1)
	if err != nil {
		return err
	}
	a, err := where.connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	watched := []resource.Kind{kinds.Deployments, kinds.ReplicaSets, kinds.Pods, kinds.Services, kinds.EndpointSlices}
	var sources []client.Source
	for _, k := range watched {
		sources = append(sources, client.Source{Kind: k, Namespace: a.ns})
	}
	c, err := client.NewRemote(a.rest, kinds.NewSet(), "kloop-follow", sources...)
	if err != nil {
		return err
	}
	synced := make(chan struct{})
	go func() {
		if err := c.Run(ctx, func() { close(synced) }); err != nil {
			cancel()
		}
	}()
	select {
	case <-synced:
	case <-ctx.Done():
		return fmt.Errorf("reach the server: %w", ctx.Err())
	}
	s := &story{out: std.out, ns: a.ns, name: words[0], told: map[string]bool{}}
	return s.tell(ctx, c, c.Feed(watched...))
}

// story tells each step once, with the time since the Deployment was made.
type story struct {
	out      io.Writer
	ns, name string
	begin    time.Time
	told     map[string]bool
}

func (s *story) tell(ctx context.Context, c client.Client, feed client.Feed) error {
	for {
		if s.look(c.Read()) {
			return nil
		}
		if _, err := feed.Next(ctx); err != nil {
			return errors.New("it is not all ready yet; kubectl get events and kubectl describe say more")
		}
	}
}

// look tells what is new and says whether all is done.
func (s *story) look(read resource.Reader) bool {
	d := resource.Get(read, kinds.Deployments, s.ns, s.name)
	if d == nil {
		return false
	}
	if s.begin.IsZero() {
		s.begin = time.Now()
	}
	s.say("deployment/"+d.Name, "wants %d replicas", *d.Spec.Replicas)
	for _, rs := range resource.Owned(read, kinds.ReplicaSets, d) {
		s.say("  replicaset/"+rs.Name, "made by the deployment loop")
		for _, p := range resource.Owned(read, kinds.Pods, rs) {
			s.pod(p)
		}
	}
	ready := s.endpoints(read)
	done := d.Status.ObservedGeneration >= d.Generation && d.Status.AvailableReplicas == *d.Spec.Replicas &&
		d.Status.UpdatedReplicas == *d.Spec.Replicas && d.Status.Replicas == *d.Spec.Replicas && (ready >= int(*d.Spec.Replicas) || !s.served(read, d))
	if done {
		s.say("deployment/"+d.Name, "is complete: %d available", d.Status.AvailableReplicas)
	}
	return done && d.Spec.Replicas != nil && complete(d)
}

func complete(d *appsv1.Deployment) bool { return d.Status.UnavailableReplicas == 0 }

func (s *story) pod(p *corev1.Pod) {
	id := "    pod/" + p.Name
	s.say(id, "made by the replicaset loop")
	if p.Spec.NodeName != "" {
		s.say(id, "bound to %s by the scheduler", p.Spec.NodeName)
	}
	if p.Status.Phase == corev1.PodRunning {
		s.say(id, "running at %s", p.Status.PodIP)
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			s.say(id, "ready")
		}
	}
}

// served says that a service selects the deployment's pods; without one there are no endpoints to wait for.
func (s *story) served(read resource.Reader, d *appsv1.Deployment) bool {
	for _, svc := range resource.List(read, kinds.Services, s.ns) {
		if len(svc.Spec.Selector) > 0 && labels.SelectorFromSet(svc.Spec.Selector).Matches(labels.Set(d.Spec.Template.Labels)) {
			return true
		}
	}
	return false
}

// endpoints counts the ready endpoints of the deployment's pods.
func (s *story) endpoints(read resource.Reader) (ready int) {
	for _, e := range resource.List(read, kinds.EndpointSlices, s.ns) {
		for _, ep := range e.Endpoints {
			if s.mine(read, &ep) && ep.Conditions.Ready != nil && *ep.Conditions.Ready {
				ready++
				s.say("      endpoint/"+ep.TargetRef.Name, "behind service %s", e.Labels[discoveryv1.LabelServiceName])
			}
		}
	}
	return ready
}

func (s *story) mine(read resource.Reader, ep *discoveryv1.Endpoint) bool {
	if ep.TargetRef == nil {
		return false
	}
	p := resource.Get(read, kinds.Pods, s.ns, ep.TargetRef.Name)
	if p == nil {
		return false
	}
	rs := metav1.GetControllerOfNoCopy(p)
	if rs == nil {
		return false
	}
	set := resource.Get(read, kinds.ReplicaSets, s.ns, rs.Name)
	if set == nil {
		return false
	}
	owner := metav1.GetControllerOfNoCopy(set)
	return owner != nil && owner.Name == s.name
}

func (s *story) say(who, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if key := who + " " + text; !s.told[key] {
		s.told[key] = true
		fmt.Fprintf(s.out, "%7.3f s  %s %s\n", time.Since(s.begin).Seconds(), who, text)
	}
}
