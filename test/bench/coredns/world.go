package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const space = "default"

// A world holds the questions about the objects that were made, with their answers.
type world struct{ questions []question }

// populate makes services of three endpoints, without pods.
func populate(ctx context.Context, c *kubernetes.Clientset, n int) (*world, error) {
	w := &world{}
	var all sync.WaitGroup
	errs := make(chan error, n+1)
	seats := make(chan struct{}, 16)
	for i := range n {
		seats <- struct{}{}
		all.Go(func() {
			defer func() { <-seats }()
			errs <- service(ctx, c, i, i%10 == 0)
		})
	}
	all.Wait()
	errs <- make1(ctx, c, "moving", true, netip.AddrFrom4([4]byte{10, 1, 0, 1}))
	close(errs)
	for err := range errs {
		if err != nil {
			return nil, err
		}
	}
	for i := range n {
		name := fmt.Sprintf("s%d.%s.svc.cluster.local", i, space)
		switch {
		case i%10 == 0:
			w.questions = append(w.questions, ask(name, typeA, 3, 0))
		case i%10 == 1:
			w.questions = append(w.questions, ask("_http._tcp."+name, typeSRV, 1, 0))
		case i%10 < 5: // what the search path makes of names elsewhere
			w.questions = append(w.questions, ask(fmt.Sprintf("s%d.example.com.%s.svc.cluster.local", i, space), typeA, 0, noName))
		default:
			w.questions = append(w.questions, ask(name, typeA, 1, 0))
		}
	}
	return w, nil
}

func service(ctx context.Context, c *kubernetes.Clientset, i int, headless bool) error {
	var ends []netip.Addr
	for k := range 3 {
		ends = append(ends, netip.AddrFrom4([4]byte{10, byte(100 + i>>8), byte(i), byte(k + 1)}))
	}
	return make1(ctx, c, fmt.Sprintf("s%d", i), headless, ends...)
}

func make1(ctx context.Context, c *kubernetes.Clientset, name string, headless bool, ends ...netip.Addr) error {
	meta := metav1.ObjectMeta{Namespace: space, Name: name, Labels: map[string]string{"app": name, discoveryv1.LabelServiceName: name}}
	s := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}
	if headless {
		s.Spec.ClusterIP = corev1.ClusterIPNone
	}
	if _, err := c.CoreV1().Services(space).Create(ctx, s, metav1.CreateOptions{}); err != nil {
		return err
	}
	http, port := "http", int32(8080)
	sl := &discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: &http, Port: &port}}}
	for _, a := range ends {
		sl.Endpoints = append(sl.Endpoints, discoveryv1.Endpoint{Addresses: []string{a.String()}})
	}
	_, err := c.DiscoveryV1().EndpointSlices(space).Create(ctx, sl, metav1.CreateOptions{})
	return err
}

// turns measures the lags of each server in turn, while the other stands still: a change wakes both, and with two processors the tail
// would be that of who waits for whom.
func turns(ctx context.Context, c *kubernetes.Clientset, o options, list []*server) error {
	defer debug.SetGCPercent(debug.SetGCPercent(1000)) // a collection of this program is no lag of theirs
	rounds := max(1, o.runs)
	for turn := range rounds {
		for i := range list {
			s, other := list[(i+turn)%len(list)], list[(i+turn+1)%len(list)]
			if err := other.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				return err
			}
			err := s.behind(ctx, c, max(1, o.changes/rounds))
			if err := errors.Join(err, other.cmd.Process.Signal(syscall.SIGCONT)); err != nil {
				return err
			}
		}
	}
	return nil
}

// behind changes the only endpoint of a headless service again and again. The time counts from the moment in which this program, which
// watches as the server does, hears of it, to the first answer with the new address.
func (s *server) behind(ctx context.Context, c *kubernetes.Clientset, changes int) error {
	slices := c.DiscoveryV1().EndpointSlices(space)
	sl, err := slices.Get(ctx, "moving", metav1.GetOptions{})
	if err != nil {
		return err
	}
	watch, err := slices.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=moving", ResourceVersion: sl.ResourceVersion})
	if err != nil {
		return err
	}
	defer watch.Stop()
	conn, err := net.Dial("udp", s.at)
	if err != nil {
		return err
	}
	defer conn.Close()
	wrote := make(chan error, 1)
	for range changes {
		addr := next(netip.MustParseAddr(sl.Endpoints[0].Addresses[0]))
		sl.Endpoints[0].Addresses = []string{addr.String()}
		changed := sl.DeepCopy()
		go func() { // the watch may hear of the write before its answer comes
			var err error
			sl, err = slices.Update(ctx, changed, metav1.UpdateOptions{})
			wrote <- err
		}()
		select {
		case <-watch.ResultChan():
		case <-ctx.Done():
			return ctx.Err()
		}
		seen := time.Now()
		if err := s.until(ctx, conn, addr); err != nil {
			return err
		}
		s.lags = append(s.lags, float64(time.Since(seen))/float64(time.Millisecond))
		if err := <-wrote; err != nil {
			return err
		}
	}
	return nil
}

// next is the address behind another, without those that end in 0 or 255.
func next(a netip.Addr) netip.Addr {
	for a = a.Next(); a.As4()[3] == 0 || a.As4()[3] == 255; a = a.Next() {
	}
	return a
}

// until asks until the answer has an address.
func (s *server) until(ctx context.Context, c net.Conn, addr netip.Addr) error {
	q, buf := ask("moving."+space+".svc.cluster.local", typeA, 1, 0), make([]byte, 4096)
	for i := range uint16(60000) {
		answer, err := put(c, q.msg, i, buf)
		if err != nil {
			return err
		}
		if q.right(answer) && bytes.Contains(answer, addr.AsSlice()) {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return errors.New(s.name + " never has the new address")
}
