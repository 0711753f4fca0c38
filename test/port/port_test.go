package port

import (
	"net"
	"testing"
)

// A held address is listened at again and again, and nobody gets it who asks for any.
func TestHeld(t *testing.T) {
	at := Held(t)
	for range 3 {
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		_ = l.Close()
	}
	for range 100 {
		if other := Held(t); other == at {
			t.Fatalf("%s is given away", at)
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if l.Addr().String() == at {
			t.Fatalf("somebody else listens at %s", at)
		}
	}
}
