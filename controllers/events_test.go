package controllers_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// Events that differ by their text only become one after a while.
func TestSimilarEventsAreCombined(t *testing.T) {
	simulate(t, 0, func(c *cluster) {
		ctx, stop := context.WithCancel(c.t.Context())
		defer stop()
		rec := client.NewRecorder(c, "tester", nil)
		go rec.Run(ctx)
		ns := resource.Get(c.Read(), kinds.Namespaces, "", "default")
		for i := range 15 {
			rec.Event(kinds.Namespaces, ns, corev1.EventTypeWarning, "Odd", "%c is odd", 'a'+i)
		}
		c.until("nine events of their own and one of six", func(r resource.Reader) bool {
			own, combined := 0, int32(0)
			for _, e := range resource.List(r, kinds.Events, "default") {
				switch {
				case e.Reason != "Odd":
				case strings.HasPrefix(e.Message, "(combined from similar events): "):
					if combined = e.Count; e.ReportingController != "" || !strings.HasSuffix(e.Message, "is odd") {
						t.Errorf("combined as %+v", e)
					}
				default:
					own++
				}
			}
			return own == 9 && combined == 6
		})
	})
}
