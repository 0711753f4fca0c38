package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/resource"
)

// events is a server that hands on the events that are made.
type events struct {
	client.Client
	made chan *corev1.Event
	away func() error // why it gives no answer; nil: it does
}

func (s *events) Create(_ context.Context, _ resource.Kind, obj resource.Object) (resource.Object, error) {
	if s.away != nil {
		if err := s.away(); err != nil {
			return nil, err
		}
	}
	s.made <- obj.(*corev1.Event)
	return obj, nil
}

// TestLongEvents: a message is cut to what an event may hold, and no letter is cut in two.
func TestLongEvents(t *testing.T) {
	s := &events{made: make(chan *corev1.Event, 1)}
	r := client.NewRecorder(s, "test", nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	r.Ref(corev1.ObjectReference{Name: "o", Namespace: "d"}, corev1.EventTypeNormal, "Long", "%s", strings.Repeat("ö", 600))
	got := (<-s.made).Message
	if !utf8.ValidString(got) || len(got) > 1024 || len(got) < 1020 || !strings.HasSuffix(got, "ö...") {
		t.Errorf("%d bytes: …%q", len(got), got[len(got)-8:])
	}
	cancel()
	<-done
}

// TestEventsWhileTheServerIsAway: what happens while a server starts anew is told when it is back; what it refuses is not tried again.
func TestEventsWhileTheServerIsAway(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want int32 // tries within a minute
	}{
		{"away", errors.New("connect: connection refused"), 4}, {"refused", apierrors.NewBadRequest("no"), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, tries := time.Now(), int32(0)
				s := &events{made: make(chan *corev1.Event, 1), away: func() error {
					if tries++; time.Since(began) < 30*time.Second {
						return c.err
					}
					return nil
				}}
				r := client.NewRecorder(s, "test", nil)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go r.Run(ctx)
				r.Ref(corev1.ObjectReference{Name: "o", Namespace: "d"}, corev1.EventTypeNormal, "Happened", "it did")
				time.Sleep(time.Minute)
				synctest.Wait()
				if tries != c.want || len(s.made) != int(c.want)/4 {
					t.Errorf("it was tried %d times, and told %d times", tries, len(s.made))
				}
			})
		})
	}
}

// TestNamesOfEvents: an object whose name is too long or too odd for an event's has events all the same.
func TestNamesOfEvents(t *testing.T) {
	for _, name := range []string{"web-1", strings.Repeat("a", 253), "system:node"} {
		t.Run(name[:5], func(t *testing.T) {
			s := &events{made: make(chan *corev1.Event, 1)}
			r := client.NewRecorder(s, "test", nil)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go r.Run(ctx)
			r.Ref(corev1.ObjectReference{Name: name, Namespace: "d"}, corev1.EventTypeNormal, "Happened", "it did")
			ev := <-s.made
			if errs := validation.IsDNS1123Subdomain(ev.Name); len(errs) > 0 || ev.InvolvedObject.Name != name {
				t.Errorf("the event %s about %s: %v", ev.Name, ev.InvolvedObject.Name, errs)
			}
		})
	}
}
