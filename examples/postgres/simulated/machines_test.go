package simulated

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kloop-dev/kloop/examples/postgres/api/v1alpha1"
	"github.com/kloop-dev/kloop/examples/postgres/instance"
)

// slow is the timing of simulated instances: fewer requests for the same story.
var slow = instance.Timing{Poll: 2 * time.Second, Deadline: 8 * time.Second, Duration: 12 * time.Second}

// machines runs an instance manager for each pod that runs, until ctx ends.
func (s *site) machines(ctx context.Context, api client.WithWatch) {
	type process struct {
		uid    types.UID
		cancel context.CancelFunc
	}
	var all sync.WaitGroup
	defer all.Wait()
	running := map[string]process{}
	for ctx.Err() == nil {
		var pods corev1.PodList
		if err := api.List(ctx, &pods, client.InNamespace("default"), client.HasLabels{v1alpha1.InstanceLabel}); err == nil {
			there := map[string]types.UID{}
			for i := range pods.Items {
				p := &pods.Items[i]
				if p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning && p.Status.PodIP != "" {
					there[p.Name] = p.UID
					if running[p.Name].uid == "" {
						one, cancel := context.WithCancel(ctx)
						running[p.Name] = process{p.UID, cancel}
						all.Go(func() { s.machine(one, api, p) })
					}
				}
			}
			for name, proc := range running {
				if there[name] != proc.uid {
					proc.cancel()
					delete(running, name)
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// machine is one pod's life.
func (s *site) machine(ctx context.Context, api client.WithWatch, pod *corev1.Pod) {
	srv := &server{site: s, name: pod.Name, addr: pod.Status.PodIP}
	s.mu.Lock()
	s.procs[srv.addr] = srv
	s.mu.Unlock()
	m := &instance.Manager{API: cutter(api, srv), Server: srv, Namespace: pod.Namespace, Cluster: pod.Labels[v1alpha1.ClusterLabel],
		Pod: pod.Name, UID: pod.UID, Timing: slow, Log: slog.New(slog.DiscardHandler)}
	_ = m.Run(ctx) // what can't be given up runs out
	s.mu.Lock()
	defer s.mu.Unlock()
	srv.running = false
	if s.procs[srv.addr] == srv {
		delete(s.procs, srv.addr)
	}
}

// cutter is a client that reaches nobody while its server is cut off.
func cutter(api client.WithWatch, srv *server) client.Client {
	cut := func() error {
		srv.site.mu.Lock()
		defer srv.site.mu.Unlock()
		if srv.cut {
			return errors.New("cut off")
		}
		return nil
	}
	return interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			return errors.Join(cut(), c.Get(ctx, key, obj, opts...))
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if err := cut(); err != nil {
				return err
			}
			return c.Create(ctx, obj, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			if err := cut(); err != nil {
				return err
			}
			return c.Update(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err := cut(); err != nil {
				return err
			}
			return c.Patch(ctx, obj, p, opts...)
		},
	})
}

// cutOff cuts one instance off, or connects it again.
func (s *site) cutOff(name string, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.procs {
		if p.name == name {
			p.cut = cut
		}
	}
}
