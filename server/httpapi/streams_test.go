package httpapi

import (
	"context"
	"testing"
)

func TestStreamsAreBounded(t *testing.T) {
	var s streams
	var leave []func()
	for range maxStreams {
		_, l, ok := s.join(context.Background())
		if !ok {
			t.Fatal("refused too early")
		}
		leave = append(leave, l)
	}
	if _, _, ok := s.join(context.Background()); ok {
		t.Error("one too many")
	}
	leave[0]()
	ctx, l, ok := s.join(context.Background())
	if !ok || ctx.Err() != nil {
		t.Error("no room after one left")
	}
	s.close()
	if ctx.Err() == nil {
		t.Error("a stream outlives the server")
	}
	l()
	for _, l := range leave[1:] {
		l()
	}
	if len(s.open) != 0 {
		t.Errorf("%d streams stay", len(s.open))
	}
}
