package etcd

import (
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestSilent(t *testing.T) {
	tests := []struct {
		err  error
		want bool
	}{
		{rpctypes.ErrNoLeader, true},
		{rpctypes.ErrTimeout, true},
		{rpctypes.ErrCompacted, false},
		{status.Error(codes.Unavailable, "connection refused"), true},
		{status.Error(codes.DeadlineExceeded, "context deadline exceeded"), true},
		{status.Error(codes.Unknown, "context deadline exceeded"), true},
		{status.Error(codes.Unknown, "bad"), false},
		{status.Error(codes.Internal, "context deadline exceeded"), false},
		{errors.New("bad"), false},
	}
	for _, tt := range tests {
		if got := silent(tt.err); got != tt.want {
			t.Errorf("%v: silent is %v", tt.err, got)
		}
	}
}
