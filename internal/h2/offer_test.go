package h2

import (
	"bytes"
	"net"
	"testing"
)

// A sink takes what is written and forgets it.
type sink struct {
	net.Conn
	wrote int
}

func (s *sink) Write(b []byte) (int, error) {
	s.wrote += len(b)
	return len(b), nil
}

// A slowLine is a line whose client has taken what was written, or is never to take it.
type slowLine struct{ never chan struct{} }

func (l slowLine) Put(write func() error) (<-chan struct{}, error) { return l.never, write() }

func (l slowLine) Err() error { return nil }

// offering is a connection with so many streams whose answers have begun.
func offering(streams int, l Line) (*sink, []*response) {
	to := &sink{}
	c := &conn{s: &Server{}, nc: to, line: l, streams: map[uint32]*stream{}, window: mostWindow, initial: mostWindow}
	c.writePending = c.writeOut
	var answers []*response
	for i := range streams {
		st := c.newStream(uint32(2*i+1), true)
		st.answer.sent = true
		c.streams[st.id] = st
		answers = append(answers, &st.answer)
	}
	return to, answers
}

// Each event of a watch is offered to each that watches, so nothing is allocated for it.
func TestOfferAllocatesNothing(t *testing.T) {
	to, answers := offering(1, slowLine{})
	event := bytes.Repeat([]byte("x"), 620)
	const runs = 100
	if n := testing.AllocsPerRun(runs, func() {
		if !answers[0].Offer(event) {
			t.Fatal("refused")
		}
	}); n >= 1 { // the pools may lose what they hold
		t.Errorf("%v allocations", n)
	}
	if want := (runs + 1) * (headerSize + len(event)); to.wrote != want {
		t.Errorf("%d bytes written of %d", to.wrote, want)
	}
}

// What a client is yet to take is no reason to wake all watches that share its connection. It is bounded by how many these are.
func TestOfferBehindWhatIsNotTaken(t *testing.T) {
	event := bytes.Repeat([]byte("x"), 600)
	for _, row := range []struct {
		name    string
		streams int
		each    int // offers to each stream that are taken
	}{
		{"one stream", 1, 1},
		{"ten", 10, 1},
		{"a thousand", 1000, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			never := make(chan struct{})
			t.Cleanup(func() { close(never) })
			to, answers := offering(row.streams+1, slowLine{never})
			if !answers[row.streams].Offer(bytes.Repeat([]byte("x"), gatherFrom)) { // which is written, and not taken
				t.Fatal("the first is refused")
			}
			wrote, taken := to.wrote, 0
			for range 1000 {
				for _, w := range answers[:row.streams] {
					if w.Offer(event) {
						taken++
					}
				}
			}
			if taken < row.streams*row.each || taken*len(event) > (row.streams+1)*offerShare || to.wrote != wrote {
				t.Errorf("%d offers taken, %d bytes written beside what is not taken", taken, to.wrote-wrote)
			}
		})
	}
}

// What waits of offers is no reason to think that the client asks for answers and takes none.
func TestOffersAreNoFlood(t *testing.T) {
	if offerLimit+outLimit >= controlLimit {
		t.Errorf("%d and %d bytes may wait, %d end the connection", offerLimit, outLimit, controlLimit)
	}
}
