//go:build e2e

package servers

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// TestRoll stops and starts three servers one after the other, as an upgrade does, while clients behind a load balancer write: no
// write fails, none is lost, and no server that says it is ready turns anybody away. Where there is a program of before, they go over
// from it to the present one and back.
func TestRoll(t *testing.T) {
	m := three(t)
	for _, x := range m {
		x.args = append(x.args, "--shutdown-delay-duration", "2s")
	}
	for _, x := range m { // from here on they wait for the load balancer
		x.stop()
		x.start()
	}
	published(t, m[0], 3)
	b := balance(t, m)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wrote, again atomic.Int64
	var load sync.WaitGroup
	for i := range 8 {
		load.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				name := fmt.Sprintf("w%d-%d", i, n)
				tries, err := b.write(name)
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				wrote.Add(1)
				again.Add(int64(tries - 1))
			}
		})
	}
	programs := slices.Compact([]string{kloop(t), before(t)})
	for range *rounds {
		for _, program := range programs {
			for _, x := range m {
				x.stop()
				x.program = program
				x.start()
				published(t, x, 3)
			}
		}
	}
	stop()
	load.Wait()
	list, err := m[0].client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{LabelSelector: "roll"})
	must(t, err)
	if int64(len(list.Items)) != wrote.Load() {
		t.Errorf("%d objects of %d that were written", len(list.Items), wrote.Load())
	}
	t.Logf("%d rolls of 3 servers: %d writes, %d of them sent again to another server", *rounds*len(programs), wrote.Load(), again.Load())
}

// A balancer sends to servers that say that they are ready, as one that looks five times a second.
type balancer struct {
	m     []*machine
	ready []atomic.Bool
	turn  atomic.Int64
}

func balance(t *testing.T, m []*machine) *balancer {
	b := &balancer{m: m, ready: make([]atomic.Bool, len(m))}
	look := func(i int) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		code := 0
		m[i].client.RESTClient().Get().AbsPath("/readyz").Do(ctx).StatusCode(&code)
		b.ready[i].Store(code == http.StatusOK)
	}
	for i := range m {
		look(i)
		go func() {
			for t.Context().Err() == nil {
				select {
				case <-t.Context().Done():
				case <-time.After(200 * time.Millisecond):
					look(i)
				}
			}
		}()
	}
	return b
}

// pick is a server that was ready when it was last looked at.
func (b *balancer) pick() *machine {
	for range b.m {
		if i := int(b.turn.Add(1)) % len(b.m); b.ready[i].Load() {
			return b.m[i]
		}
	}
	return b.m[0]
}

// write creates an object, and changes it. What a server did not take for certain is sent to another one, as every client does.
func (b *balancer) write(name string) (tries int, err error) {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"roll": "on"}}}
	for tries = 1; tries < 20; tries++ {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		_, err = b.pick().client.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{})
		cancel()
		if err == nil || !utilnet.IsConnectionRefused(err) && !apierrors.IsServiceUnavailable(err) && !apierrors.IsTooManyRequests(err) {
			return tries, err
		}
	}
	return tries, err
}
