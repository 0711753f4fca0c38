package plugins

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

// maxSocket is the longest path that the address of a socket holds.
const maxSocket = 107

// Dial returns a connection to the gRPC server at a socket. It connects when it is used, and again when it was lost, at most 2 s later;
// calls fail at once while nobody is there. The socket's path may be of any length.
func Dial(path string, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///"+path, append(options,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"), // servers in other languages refuse a path there
		grpc.WithIdleTimeout(0),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: askWithin,
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: 2 * time.Second}}),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return connect(ctx, path) }))...)
	if err != nil {
		return nil, fmt.Errorf("dial the plugin at %s: %w", path, err)
	}
	return conn, nil
}

// connect connects to a socket. A path that is too long for an address is reached by its directory.
func connect(ctx context.Context, path string) (net.Conn, error) {
	var d net.Dialer
	if len(path) <= maxSocket {
		return d.DialContext(ctx, "unix", path)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
}
