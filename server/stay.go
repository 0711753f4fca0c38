package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	core "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/store"
)

// Servers that share a store tell each other that they are there by keys that expire, as upstream's do.
const (
	hereKey   = "/registry/masterleases/"
	hereFor   = 15 * time.Second
	hereAgain = 10 * time.Second

	leavePatience = 3 * time.Second // a store without its quorum does not answer
)

// Stay publishes the address at which this server answers until ctx ends, and withdraws it then. Servers that
// share a store are published together; one that dies without a word is missed after a quarter of a minute.
// A sole server writes once and then rests. ready is called when the address is published.
func (s *Server) Stay(ctx context.Context, at netip.AddrPort, ready func()) error {
	if s.Sole {
		if err := s.Publish(ctx, []netip.AddrPort{at}); err != nil {
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
func (s *Server) here(ctx context.Context, at netip.AddrPort) error {
	if err := s.sayHere(ctx, at.Addr()); err != nil {
		return fmt.Errorf("tell that the server at %v is there: %w", at, err)
	}
	return s.publishAll(ctx, at.Port())
}

func (s *Server) sayHere(ctx context.Context, addr netip.Addr) error {
	e := &core.Endpoints{Subsets: []core.EndpointSubset{{Addresses: []core.EndpointAddress{{IP: addr.String()}}}}} //nolint:staticcheck // upstream's form
	e.SetGroupVersionKind(core.SchemeGroupVersion.WithKind("Endpoints"))
	value, err := codec.MarshalProto(e)
	if err != nil {
		return err
	}
	key := hereKey + addr.String()
	for range retries {
		kv, _, err := s.Store.Get(ctx, key)
		if err != nil {
			return err
		}
		w := store.Write{Key: key, Value: value, TTL: hereFor}
		if kv != nil {
			w.Expect = kv.ModRev
		}
		_, err = s.Store.Write(ctx, w)
		var lost *store.ConflictError
		if !errors.As(err, &lost) {
			return err
		}
	}
	return errors.New("others were faster")
}

// publishAll publishes the servers that say that they are there. They answer at the same port.
func (s *Server) publishAll(ctx context.Context, port uint16) error {
	page, err := s.Store.List(ctx, hereKey, "", 0, 0)
	if err != nil {
		return fmt.Errorf("list the servers that are there: %w", err)
	}
	var at []netip.AddrPort
	for _, kv := range page.KVs {
		if a, err := netip.ParseAddr(strings.TrimPrefix(kv.Key, hereKey)); err == nil {
			at = append(at, netip.AddrPortFrom(a, port))
		}
	}
	slices.SortFunc(at, netip.AddrPort.Compare)
	return s.Publish(ctx, at)
}

// leave withdraws this server's address.
func (s *Server) leave(ctx context.Context, at netip.AddrPort) error {
	kv, _, err := s.Store.Get(ctx, hereKey+at.Addr().String())
	if err == nil && kv != nil {
		_, err = s.Store.Write(ctx, store.Write{Key: kv.Key, Expect: kv.ModRev})
	}
	if err == nil {
		err = s.publishAll(ctx, at.Port())
	}
	if err != nil {
		return fmt.Errorf("withdraw the address of this server: %w", err)
	}
	return nil
}
