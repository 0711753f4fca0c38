package probe

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// askGRPC asks by the health protocol.
func askGRPC(ctx context.Context, addr, service string, timeout time.Duration) (answer, string) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithUserAgent(agent("probe")),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return dialer(timeout).DialContext(ctx, "tcp", addr)
		}))
	if err != nil {
		return failed, err.Error()
	}
	defer conn.Close()
	res, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{Service: service})
	switch status.Code(err) {
	case codes.OK:
	case codes.Unimplemented:
		return failed, fmt.Sprintf("error: this server does not implement the grpc health protocol (grpc.health.v1.Health): %s",
			status.Convert(err).Message())
	case codes.DeadlineExceeded:
		return failed, fmt.Sprintf("timeout: health rpc did not complete within %v", timeout)
	case codes.Unavailable:
		return failed, fmt.Sprintf("timeout: failed to connect service %q within %v: %s", addr, timeout, status.Convert(err).Message())
	default:
		return failed, fmt.Sprintf("error: health rpc probe failed: %v", err)
	}
	if res.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		return failed, fmt.Sprintf("service unhealthy (responded with %q)", res.GetStatus())
	}
	return passed, ""
}
