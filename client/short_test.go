package client_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
)

// A cutter answers watches with their beginning, and cuts all further ones off as soon as they begin.
type cutter struct{ asked atomic.Int32 }

func (c *cutter) RoundTrip(r *http.Request) (*http.Response, error) {
	text := ""
	if c.asked.Add(1) == 1 {
		text = said("END", "", 5)
	}
	return &http.Response{StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(text))}, nil
}

// TestWatchesThatAreCutOff: who cuts every watch off is not asked without end.
func TestWatchesThatAreCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cutter{}
		r, err := client.NewRemote(&rest.Config{Host: "http://server", Transport: c}, kinds.NewSet(), "test",
			client.Source{Kind: kinds.ConfigMaps})
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = r.Run(t.Context(), func() {}) }()
		time.Sleep(10 * time.Minute)
		if n := c.asked.Load(); n < 20 || n > 60 {
			t.Errorf("within ten minutes it was asked %d times", n)
		}
	})
}
