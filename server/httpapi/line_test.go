package httpapi

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// pair returns a line and the client's end of it.
func pair(t *testing.T, stall time.Duration) (*line, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := lines{l, stall}.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); client.Close() })
	return c.(*line), client
}

// flood puts more on the line than the kernel takes, in several writes, without waiting for the client.
func flood(t *testing.T, l *line) []byte {
	t.Helper()
	var all []byte
	took, err := l.softly(func() error {
		for i := range 16 {
			part := bytes.Repeat([]byte{'a' + byte(i)}, 1<<20)
			all = append(all, part...)
			if n, err := l.Write(part); err != nil || n != len(part) {
				t.Errorf("write %d: %d, %v", i, n, err)
			}
		}
		return nil
	})
	if !took || err != nil {
		t.Fatalf("the line took nothing: %v, %v", took, err)
	}
	return all
}

func TestLineKeepsWhatTheClientIsYetToTake(t *testing.T) {
	l, client := pair(t, time.Minute)
	want := flood(t, l)
	took, err := l.softly(func() error {
		t.Error("writes beside what is kept")
		return nil
	})
	if took || err != nil {
		t.Errorf("took more: %v, %v", took, err)
	}
	end := []byte("the end")
	wrote := make(chan error, 1)
	go func() {
		_, err := l.Write(end) // behind what is kept
		wrote <- err
	}()
	got := make([]byte, len(want)+len(end))
	if _, err := io.ReadFull(client, got); err != nil {
		t.Fatal(err)
	}
	if err := <-wrote; err != nil || !bytes.Equal(got, append(want, end...)) {
		t.Errorf("%v; what arrived is not what was written", err)
	}
	if took, err := l.softly(func() error { _, err := l.Write(end); return err }); !took || err != nil {
		t.Errorf("when all is taken: %v, %v", took, err)
	}
	if _, err := io.ReadFull(client, got[:len(end)]); err != nil || !bytes.Equal(got[:len(end)], end) {
		t.Errorf("then %q, %v", got[:len(end)], err)
	}
}

func TestLineBreaksWhenTheClientTakesNothing(t *testing.T) {
	l, _ := pair(t, 20*time.Millisecond)
	flood(t, l)
	if _, err := l.Write([]byte("x")); err == nil {
		t.Error("a write behind what nobody takes is no error")
	}
	if took, _ := l.softly(func() error { return nil }); took {
		t.Error("a broken line takes more")
	}
}

// Each event of a watch over HTTP/1.1 comes here once for each that watches.
func TestLineAllocatesNothing(t *testing.T) {
	l, _ := pair(t, time.Minute)
	event := bytes.Repeat([]byte("x"), 100)
	write := func() error { _, err := l.Write(event); return err }
	if n := testing.AllocsPerRun(100, func() {
		if took, err := l.softly(write); !took || err != nil {
			t.Fatalf("%v, %v", took, err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
