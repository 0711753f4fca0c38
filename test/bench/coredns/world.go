package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
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

// lags changes the only endpoint of a headless service again and again. The time counts from the moment in which this program, which
// watches as the servers do, hears of it, to the first answer with the new address.
func lags(ctx context.Context, c *kubernetes.Clientset, w *world, changes int, list []*server) error {
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
	wrote := make(chan error, 1)
	for i := range changes {
		addr := netip.AddrFrom4([4]byte{10, 2, byte(i >> 8), byte(i)})
		sl.Endpoints[0].Addresses = []string{addr.String()}
		next := sl.DeepCopy()
		go func() { // the watch may hear of the write before its answer comes
			var err error
			sl, err = slices.Update(ctx, next, metav1.UpdateOptions{})
			wrote <- err
		}()
		select {
		case <-watch.ResultChan():
		case <-ctx.Done():
			return ctx.Err()
		}
		seen := time.Now()
		s := list[i%len(list)]
		if err := s.until(ctx, addr); err != nil {
			return err
		}
		s.lags = append(s.lags, float64(time.Since(seen))/float64(time.Millisecond))
		if err := <-wrote; err != nil {
			return err
		}
	}
	return nil
}

// until asks until the answer has an address.
func (s *server) until(ctx context.Context, addr netip.Addr) error {
	c, err := net.Dial("udp", s.at)
	if err != nil {
		return err
	}
	defer c.Close()
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
