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
		name string
		err  error
		want bool
	}{
		{"no leader", rpctypes.ErrNoLeader, true},
		{"timeout", rpctypes.ErrTimeout, true},
		{"compacted", rpctypes.ErrCompacted, false},
		{"unavailable", status.Error(codes.Unavailable, "connection refused"), true},
		{"deadline", status.Error(codes.DeadlineExceeded, "context deadline exceeded"), true},
		{"deadline in an unknown error", status.Error(codes.Unknown, "context deadline exceeded"), true},
		{"unknown error", status.Error(codes.Unknown, "bad"), false},
		{"deadline in an internal error", status.Error(codes.Internal, "context deadline exceeded"), false},
		{"no error of gRPC", errors.New("bad"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := silent(tt.err); got != tt.want {
				t.Errorf("%v: silent is %v", tt.err, got)
			}
		})
	}
}
