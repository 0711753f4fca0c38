package services

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/store"
)

// Servers that share a store tell each other that they are there by keys that expire, as upstream's do.
const (
	hereKey   = "/registry/masterleases/"
	hereFor   = 15 * time.Second
	hereAgain = 10 * time.Second

	leavePatience = 3 * time.Second // a store without its quorum does not answer
)

// Heartbeat publishes the address at which this server answers until ctx ends, and withdraws it then. Servers that
// share a store are published together; one that dies without a word is missed after a quarter of a minute.
// A sole server writes once and then rests. ready is called when the address is published.
func (s *Allocator) Heartbeat(ctx context.Context, at netip.AddrPort, ready func()) error {
	if s.core.Sole {
		if err := s.PublishEndpoints(ctx, []netip.AddrPort{at}); err != nil {
			return err
		}
		ready()
		<-ctx.Done()
		return nil
	}
	if err := s.here(ctx, at); err != nil {
		return err
	}
	ready()
	t := time.NewTicker(hereAgain)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), leavePatience)
			defer cancel()
			if err := s.leave(last, at); err != nil {
				slog.Warn("the address of this server stays until it expires", "object", at, "err", err, "after", hereFor)
			}
			return nil
		case <-t.C:
			if err := s.here(ctx, at); err != nil && ctx.Err() == nil {
				slog.Warn("the address of this server may expire", "object", at, "err", err, "again", hereAgain)
			}
		}
	}
}

// here says that this server is there, and publishes all that are.
func (s *Allocator) here(ctx context.Context, at netip.AddrPort) error {
	if err := s.sayHere(ctx, at.Addr()); err != nil {
		return fmt.Errorf("tell that the server at %v is there: %w", at, err)
	}
	return s.publishAll(ctx, at.Port())
}

func (s *Allocator) sayHere(ctx context.Context, addr netip.Addr) error {
	e := &corev1.Endpoints{Subsets: []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{
		{IP: addr.String()}}}}} //nolint:staticcheck // upstream's form
	e.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Endpoints"))
	value, err := codec.MarshalProto(e)
	if err != nil {
		return err
	}
	key := hereKey + addr.String()
	for range server.Retries {
		kv, _, err := s.core.Store.Get(ctx, key)
		if err != nil {
			return err
		}
		w := store.Write{Key: key, Value: value, TTL: hereFor}
		if kv != nil {
			w.Expect = kv.ModRev
		}
		_, err = s.core.Store.Write(ctx, w)
		var lost *store.ConflictError
		if !errors.As(err, &lost) {
			return err
		}
	}
	return errors.New("others were faster")
}

// publishAll publishes the servers that say that they are there. They answer at the same port.
func (s *Allocator) publishAll(ctx context.Context, port uint16) error {
	page, err := s.core.Store.List(ctx, hereKey, "", 0, 0)
	if err != nil {
		return fmt.Errorf("list the servers that are there: %w", err)
	}
	var at []netip.AddrPort
	for _, kv := range page.KVs {
		if a, err := netip.ParseAddr(strings.TrimPrefix(kv.Key, hereKey)); err == nil {
			at = append(at, netip.AddrPortFrom(a, port))
		}
	}
	coldsort.Func(at, netip.AddrPort.Compare)
	return s.PublishEndpoints(ctx, at)
}

// leave withdraws this server's address.
func (s *Allocator) leave(ctx context.Context, at netip.AddrPort) error {
	kv, _, err := s.core.Store.Get(ctx, hereKey+at.Addr().String())
	if err == nil && kv != nil {
		_, err = s.core.Store.Write(ctx, store.Write{Key: kv.Key, Expect: kv.ModRev})
	}
	if err == nil {
		err = s.publishAll(ctx, at.Port())
	}
	if err != nil {
		return fmt.Errorf("withdraw the address of this server: %w", err)
	}
	return nil
}
