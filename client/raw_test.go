package client_test

import (
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/client"
)

// Questions of paths are not held back to client-go's five a second: 300 autoscalers look every 15 seconds. Who wants a bound says so.
func TestRawIsNotHeldBack(t *testing.T) {
	for _, tt := range []struct {
		name  string
		qps   float32
		bound bool
	}{{"by default", 0, false}, {"without a bound", -1, false}, {"with one", 7, true}} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := client.Raw(&rest.Config{Host: "https://localhost:1", QPS: tt.qps})
			if err != nil {
				t.Fatal(err)
			}
			if l := c.GetRateLimiter(); (l != nil) != tt.bound {
				t.Errorf("limiter: %v", l)
			}
		})
	}
}
