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

// It is told when many streams have ended, not when few have, nor again and again.
func TestStreamsTellOfRelief(t *testing.T) {
	told := 0
	s := streams{relieved: func() { told++ }}
	open := func(n int) (leave []func()) {
		for range n {
			_, l, _ := s.join(t.Context())
			leave = append(leave, l)
		}
		return leave
	}
	for _, l := range open(manyStreams - 1) {
		l()
	}
	if told != 0 {
		t.Errorf("told %d times of few", told)
	}
	stay := open(4 * manyStreams)
	for _, l := range open(4 * manyStreams)[1:] {
		l()
	}
	if told != 0 {
		t.Errorf("told %d times of less than half", told)
	}
	for _, l := range stay {
		l()
	}
	if told != 3 { // of 8: at 4, 2 and 1 of what is many
		t.Errorf("told %d times, want 3", told)
	}
}
