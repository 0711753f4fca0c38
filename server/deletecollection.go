package server

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// deleters is the number of objects of a collection that are deleted at a time, so that their writes share an fsync.
const deleters = 32

// DeleteCollection implements Operations. It is not atomic: after an error some objects are deleted. The
// list holds the states that were listed, as upstream does.
func (s *Server) DeleteCollection(ctx context.Context, r *Request, opts *metav1.DeleteOptions, which *metav1.ListOptions) (*List, error) {
	if opts == nil {
		opts = &metav1.DeleteOptions{}
	}
	unread, opts := s.unread(opts)
	if err := CheckDeleteOptions(opts); err != nil {
		return nil, err
	}
	if unread {
		return nil, noUnread()
	}
	all, err := s.List(ctx, r, atOnce(which))
	if err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	shared := *r
	shared.many = true
	shared.Warn = func(text string) {
		mu.Lock()
		defer mu.Unlock()
		r.warn(text)
	}
	next := make(chan *Request)
	fails := make(chan error, deleters)
	for range min(deleters, len(all.Entries)) {
		wg.Go(func() {
			for one := range next {
				if err := deleteOne(ctx, s, one, opts.DeepCopy()); err != nil && !apierrors.IsNotFound(err) {
					fails <- err
					return
				}
			}
		})
	}
	err = feed(ctx, all, &shared, next, fails)
	close(next)
	wg.Wait()
	if err == nil && len(fails) > 0 {
		err = <-fails
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// deleteOne deletes one object of a collection. A panic, which would end the program here, is an error.
func deleteOne(ctx context.Context, s *Server, r *Request, opts *metav1.DeleteOptions) (err error) {
	defer func() {
		if p := recover(); p != nil {
			slog.Error("a deletion panicked", "kind", r.Kind.Info().GVK.Kind, "object", r.Name, "err", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = Panicked()
		}
	}()
	_, _, err = s.Delete(ctx, r, opts)
	return err
}

// atOnce makes a list's options those of a collection's deletion, which upstream reads page by page: with pages, a revision means
// exactly that one, and one that is gone is an error.
func atOnce(which *metav1.ListOptions) *metav1.ListOptions {
	switch {
	case which == nil, which.ResourceVersion == "", which.ResourceVersion == "0":
		return which
	case which.ResourceVersionMatch != "", which.Continue != "":
		return which
	}
	out := *which
	out.ResourceVersionMatch = metav1.ResourceVersionMatchExact
	return &out
}

// feed hands the objects of a list out until one fails, or nobody waits for the rest.
func feed(ctx context.Context, all *List, r *Request, next chan<- *Request, fails <-chan error) error {
	for _, e := range all.Entries {
		if ctx.Err() != nil {
			return StoreError(ctx.Err(), "delete "+r.Kind.Info().Plural)
		}
		one := *r
		one.Name, one.Namespace = e.Object.GetName(), e.Object.GetNamespace()
		select {
		case next <- &one:
		case err := <-fails:
			return err
		}
	}
	return nil
}
