package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kloop-dev/kloop/store"
)

// errLeaseGone says that a write named a lease that etcd doesn't know any more.
var errLeaseGone = errors.New("lease is gone")

// meanings are etcd's errors in the words of the contract.
var meanings = []struct{ theirs, ours error }{
	{rpctypes.ErrCompacted, store.ErrCompacted},
	{rpctypes.ErrFutureRev, store.ErrFuture},
	{rpctypes.ErrRequestTooLarge, store.ErrTooLarge},
	{rpctypes.ErrNoSpace, store.ErrNoSpace},
	{rpctypes.ErrLeaseNotFound, errLeaseGone},
	{rpctypes.ErrStopped, store.ErrClosed},
}

// explain says what was being done when err happened, in the words of the contract. what is empty where the caller says that.
func (s *Store) explain(ctx context.Context, what string, err error) error {
	if err = translate(ctx, s.ctx, err); errors.Is(err, store.ErrNoSpace) {
		s.makeSpace()
	}
	if err == nil || what == "" {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}

// translate is err in the words of the contract: that of a context that has ended, the call's or the whole store's, comes first.
func translate(ctx, whole context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case whole.Err() != nil:
		return store.ErrClosed
	}
	for _, m := range meanings {
		if errors.Is(err, m.theirs) {
			err = m.ours
			break
		}
	}
	if silent(err) {
		err = fmt.Errorf("%w: %v", store.ErrUnavailable, err)
	}
	if strings.Contains(err.Error(), "message larger than max") { // gRPC's own limit, before the server's
		err = fmt.Errorf("%w: %v", store.ErrTooLarge, err)
	}
	return err
}

// silent says that the cluster can't be reached, or has no leader that more than half of its members follow.
func silent(err error) bool {
	var theirs rpctypes.EtcdError
	if errors.As(err, &theirs) {
		return theirs.Code() == codes.Unavailable || theirs.Code() == codes.DeadlineExceeded
	}
	switch st := status.Convert(err); st.Code() {
	case codes.Unavailable, codes.DeadlineExceeded:
		return true
	case codes.Unknown: // etcd 3.4, of a deadline that passed while it waited for the others
		return st.Message() == context.DeadlineExceeded.Error()
	}
	return false
}
