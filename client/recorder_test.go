package client_test

import (
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/resource"
)

// events is a server that hands on the events that are made.
type events struct {
	client.Client
	made chan *corev1.Event
}

func (s *events) Create(_ context.Context, _ resource.Kind, obj resource.Object) (resource.Object, error) {
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
