package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/cli/ask"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/strict"
)

// followed are the kinds whose cascades follow knows, each before those that it makes.
var followed = []resource.Kind{kinds.Deployments, kinds.CronJobs, kinds.StatefulSets, kinds.DaemonSets, kinds.ReplicaSets, kinds.Jobs,
	kinds.Pods}

// quiet is the longest time in which follow says nothing.
const quiet = 10 * time.Second

// follow shows the cascade of a workload as it happens: who made what, when pods were bound, ran, got ready and were put behind their
// services, and what goes. It ends when all is as the workload wants it.
func follow(ctx context.Context, std stdio, args []string) error {
	fs := flags(std, "follow", "[KIND/]NAME")
	var where ask.Flags
	where.Bind(fs)
	limit := fs.Duration("timeout", 2*time.Minute, "how long to wait at most")
	words, err := wordsOf(fs, args, 1, 1)
	if err != nil {
		return err
	}
	if _, err := pair(words); err != nil {
		return err
	}
	kind, name, err := workload(words[0])
	if err != nil {
		return err
	}
	a, err := where.Connect()
	if err != nil {
		return err
	}
	if a.NS == "" {
		return errors.New("one workload is in one namespace: leave -A away")
	}
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	s := &story{out: std.out, form: formOf(fs), kind: kind, ns: a.NS, name: name, limit: *limit, told: map[string]bool{}}
	return s.follow(ctx, cancel, a)
}

// follow reads all that the cascade may have, and tells it. It cancels ctx when the server is lost.
func (s *story) follow(ctx context.Context, cancel context.CancelFunc, a *ask.Asker) error {
	i := s.kind.Info()
	of := metav1.APIResource{Group: i.GVK.Group, Version: i.GVK.Version, Name: i.Plural, Kind: i.GVK.Kind, Namespaced: true}
	if err := a.Missing(ctx, &of, s.ns, s.name); apierrors.IsForbidden(err) {
		return err
	}
	watched := append(slices.Clone(followed), kinds.Services, kinds.EndpointSlices)
	var sources []client.Source
	for _, k := range watched {
		sources = append(sources, client.Source{Kind: k, Namespace: s.ns})
	}
	c, err := client.NewRemote(a.Rest, kinds.NewSet(), "kloop-follow", sources...)
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
	return s.tell(ctx, c, c.Feed(watched...))
}

// workload reads KIND/NAME; without a kind it is a Deployment.
func workload(word string) (resource.Kind, string, error) {
	kind, name, ok := strings.Cut(word, "/")
	if !ok {
		return kinds.Deployments, word, nil
	}
	kind, _, _ = strings.Cut(strings.ToLower(kind), ".") // deployment.apps, as kubectl prints it
	var known []string
	for _, k := range followed {
		i := k.Info()
		if kind == i.Plural || kind == i.Singular || slices.Contains(i.Short, kind) {
			return k, name, nil
		}
		known = append(known, i.Singular)
	}
	return nil, "", fmt.Errorf("follow knows no cascade of %q%s (it knows %s); kloop why %s and kubectl get -w %s know every kind",
		kind, strict.Meant(kind, known), strings.Join(known, ", "), word, word)
}

// story tells each step once, with the time since the workload was first seen.
type story struct {
	out      io.Writer
	form     *ask.Output
	kind     resource.Kind
	ns, name string
	limit    time.Duration
	begin    time.Time
	told     map[string]bool
	here     []string // who was there at the last look, by the words that tell of them
	now      []string // who is there at this look
	waiting  string   // what is not as it should be, in words
	last     time.Time
}

func (s *story) title() string { return s.kind.Info().Singular + "/" + s.name }

func (s *story) tell(ctx context.Context, c client.Client, feed client.Feed) error {
	for s.last = time.Now(); ; {
		done, err := s.look(c.Read())
		if done || err != nil {
			return err
		}
		wait, cancel := context.WithTimeout(ctx, max(quiet-time.Since(s.last), time.Millisecond))
		_, err = feed.Next(wait)
		cancel()
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("%s: %s; kloop why %s -n %s says more", s.title(), s.waiting, s.title(), s.ns)
		case err != nil && time.Since(s.last) >= quiet:
			s.line(s.title()+":", s.waiting)
		}
	}
}

// look tells what is new and says whether all is done.
func (s *story) look(read resource.Reader) (done bool, err error) {
	root := read.Lookup(s.kind, s.ns, s.name)
	if s.begin.IsZero() {
		s.begin = time.Now()
	}
	if root == nil {
		s.waiting = fmt.Sprintf("there is none in namespace %s", s.ns)
		if len(s.here) > 0 {
			s.line(s.title(), "is gone")
			return true, nil
		}
		s.say(s.title(), "is not there in namespace %s; waiting for it, %s at most", s.ns, s.limit)
		return false, nil
	}
	s.now = nil
	s.visit(read, root, s.kind, 0, "")
	s.goneSince()
	ready := s.endpoints(read)
	done, s.waiting, err = standing(resource.Opened(root))
	if pods := s.pods(); done && s.kind != kinds.Jobs && ready < pods && s.serves(read, root) {
		done, s.waiting = false, fmt.Sprintf("%d of %d pods are behind their services", ready, pods)
	}
	if done && err == nil {
		s.say(s.title(), "is complete: %s", s.waiting)
		s.addresses(read, root)
	}
	return done, err
}

// goneSince tells who was there at the last look and is no more.
func (s *story) goneSince() {
	for _, who := range s.here {
		if !slices.Contains(s.now, who) {
			s.line(who, "is gone")
		}
	}
	s.here = s.now
}

// visit tells of an object and of what it made.
func (s *story) visit(read resource.Reader, obj resource.Object, kind resource.Kind, depth int, maker string) {
	who := strings.Repeat("  ", depth) + kind.Info().Singular + "/" + obj.GetName()
	s.now = append(s.now, who)
	id := who + string(obj.GetUID()) // one that comes back under its name is another
	if maker != "" {
		s.sayOf(id, who, "made by the %s loop", maker)
	}
	if obj.GetDeletionTimestamp() != nil {
		s.sayOf(id, who, "is to go")
	}
	switch o := resource.Opened(obj).(type) {
	case *appsv1.Deployment:
		s.sayOf(id, who, "wants %d replicas", *o.Spec.Replicas)
	case *appsv1.StatefulSet:
		s.sayOf(id, who, "wants %d replicas", *o.Spec.Replicas)
	case *appsv1.DaemonSet:
		s.sayOf(id, who, "wants a pod on %d nodes", o.Status.DesiredNumberScheduled)
	case *batchv1.Job:
		s.sayOf(id, who, "has %d pods succeeded, %d failed", o.Status.Succeeded, o.Status.Failed)
	case *corev1.Pod:
		s.pod(id, who, o)
	}
	for _, k := range followed {
		for child := range read.ByOwner(k, string(obj.GetUID())) {
			if by := metav1.GetControllerOfNoCopy(child); by != nil && by.UID == obj.GetUID() {
				s.visit(read, child, k, depth+1, kind.Info().Singular)
			}
		}
	}
}

func (s *story) pod(id, who string, p *corev1.Pod) {
	if p.Spec.NodeName != "" {
		s.sayOf(id, who, "bound to %s by the scheduler", p.Spec.NodeName)
	}
	switch p.Status.Phase {
	case corev1.PodRunning:
		s.sayOf(id, who, "running at %s", p.Status.PodIP)
	case corev1.PodSucceeded, corev1.PodFailed:
		s.sayOf(id, who, "%s", strings.ToLower(string(p.Status.Phase)))
	}
	for i := range p.Status.ContainerStatuses {
		c := &p.Status.ContainerStatuses[i]
		if w := c.State.Waiting; w != nil && w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			s.sayOf(id, who, "container %s waits: %s", c.Name, w.Reason)
		}
		if c.RestartCount > 0 {
			s.sayOf(id, who, "container %s was started again, for the %d. time", c.Name, c.RestartCount)
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			s.sayOf(id, who, "ready")
		}
	}
}

// pods counts the pods at the ends of a cascade.
func (s *story) pods() (n int) {
	for _, who := range s.now {
		if strings.HasPrefix(strings.TrimSpace(who), "pod/") {
			n++
		}
	}
	return n
}

// endpoints counts the ready endpoints of the workload's pods.
func (s *story) endpoints(read resource.Reader) int {
	mine, behind := map[string]bool{}, map[string]bool{}
	for _, who := range s.now {
		if name, ok := strings.CutPrefix(strings.TrimSpace(who), "pod/"); ok {
			mine[name] = true
		}
	}
	for _, e := range resource.List(read, kinds.EndpointSlices, s.ns) {
		for _, ep := range e.Endpoints {
			if ep.TargetRef != nil && mine[ep.TargetRef.Name] && ep.Conditions.Ready != nil && *ep.Conditions.Ready {
				behind[ep.TargetRef.Name] = true
				s.say("      endpoint/"+ep.TargetRef.Name, "behind service %s", e.Labels[discoveryv1.LabelServiceName])
			}
		}
	}
	return len(behind)
}

func (s *story) say(who, format string, args ...any) { s.sayOf(who, who, format, args...) }

// sayOf tells something of an object once; id tells it from others of its name.
func (s *story) sayOf(id, who, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if key := id + " " + text; !s.told[key] {
		s.told[key] = true
		s.line(who, text)
	}
}

// A happening is a line of kloop follow, for programs.
type happening struct {
	Seconds float64 `json:"seconds"` // since the workload was first seen
	Object  string  `json:"object"`
	Says    string  `json:"says"`
}

func (s *story) line(who, text string) {
	s.last = time.Now()
	after := s.last.Sub(s.begin).Seconds()
	if s.form.Text() {
		fmt.Fprintf(s.out, "%7.3f s  %s %s\n", after, ask.Escape(who), ask.Escape(text))
		return
	}
	h := happening{math.Round(after*1000) / 1000, strings.Trim(who, " :"), text}
	_ = s.form.Next(s.out, h) // a reader that went away ends the process
}
